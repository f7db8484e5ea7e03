#include <chrono>
#include <cstring>

#include "device/cpu/arena.h"
#include "device/cpu/parallel.h"
#include "exec/backend.h"
#include "kernels/element_wise/cast.h"

namespace plimsoll {
namespace {

class CpuBackend final : public ExecutorBackend {
 public:
  CpuBackend(const Plan& plan, uint8_t fill) : arena_(plan.arena_bytes, fill) {
    set_num_threads(plan.request.num_threads);
    flush_denormals_on_all_threads();
  }

  std::byte* arena() const override { return arena_.data(); }
  std::byte* exchange(int64_t offset) const override { return arena_.data() + offset; }
  void before_host_writes() override {}
  void before_host_reads() override {}

  void read(int64_t offset, std::span<std::byte> bytes) const override {
    std::memcpy(bytes.data(), arena_.data() + offset, bytes.size());
  }
  void write(int64_t offset, std::span<const std::byte> bytes) override {
    std::memcpy(arena_.data() + offset, bytes.data(), bytes.size());
  }
  void fill(int64_t offset, int64_t bytes, uint8_t value) override {
    std::memset(arena_.data() + offset, value, static_cast<size_t>(bytes));
  }

  void convert(ConstView from, View to, int64_t count) override {
    cast_fwd_cpu({.x = from, .y = to, .n = count});
  }

  std::function<void()> bind(const BindContext& context) const override { return bind_cpu(context); }

  void run(BoundProgram& program, Segment segment) override {
    for (const BoundOp& op : program.ops) {
      if (op.segment == segment) op.run();
    }
  }

  void run_timed(BoundProgram& program, Segment segment, std::vector<OpTime>& times) override {
    for (const BoundOp& op : program.ops) {
      if (op.segment != segment) continue;
      const auto start = std::chrono::steady_clock::now();
      op.run();
      OpTime& time = times[op.index];
      time.milliseconds +=
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      add_cost(time, program, op.index);
    }
  }

  int64_t high_water_bytes() const override { return arena_.high_water_bytes(); }

 private:
  CpuArena arena_;
};

}  // namespace

std::unique_ptr<ExecutorBackend> make_cpu_backend(const Plan& plan, uint8_t fill) {
  return std::make_unique<CpuBackend>(plan, fill);
}

}  // namespace plimsoll
