#include "train/rank_agreement.h"

#include <algorithm>
#include <string>

#include "base/hash.h"
#include "graph/ops/op.h"
#include "hardware/cpu_target.h"

namespace plimsoll {
namespace {

// Returns the arguments without those that may differ from rank to rank: where each process reads and writes files, and what
// it prints.
Arguments common_arguments(Arguments arguments) {
  const Arguments defaults;
  arguments.output_dir = defaults.output_dir;
  arguments.json = defaults.json;
  arguments.cache_dir = defaults.cache_dir;
  arguments.log_level = defaults.log_level;
  arguments.quiet = defaults.quiet;
  arguments.device = defaults.device;
  arguments.dataloader_num_workers = defaults.dataloader_num_workers;
  return arguments;
}

uint64_t hash_of_collectives(const Plan& plan) {
  HashStream64 hash;
  for (const ProgramPlan& program : plan.programs) {
    for (const Op& op : program.graph.ops()) {
      if (!schema_of(op).is_communication()) continue;
      hash.update(fmt::format("{} {}", program.name, op.def->name()));
      for (const ValueId id : op.inputs) hash.update(" " + format_type(program.graph.value(id).type));
      hash.update("\n");
    }
  }
  return hash.digest();
}

// Kernels for other CPUs, and sums over other numbers of threads, round differently.
uint64_t hash_of_kernels(const Plan& plan) {
  HashStream64 hash;
  const DeviceOptions& device = plan.request.device;
  hash.update(fmt::format("{} {}\n", cpu_isa_name(device.isa), device.num_threads));
  for (const ProgramPlan& program : plan.programs) {
    for (const OpPlan& op : program.ops) {
      hash.update(op.kernel->implementation);
      hash.update("\n");
    }
  }
  return hash.digest();
}

}  // namespace

void require_equal_facts(Communicator& communicator, std::span<const RankFact> facts) {
  std::vector<uint64_t> own, all(facts.size() * static_cast<size_t>(communicator.size()));
  for (const RankFact& fact : facts) own.push_back(fact.hash);
  communicator.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  for (size_t i = 0; i < facts.size(); ++i) {
    for (size_t rank = 1; rank < static_cast<size_t>(communicator.size()); ++rank) {
      const uint64_t hash = all[rank * facts.size() + i];
      if (hash == all[i]) continue;
      throw_error(ErrorCode::kUsage, "rank {} does not have {} of rank 0: the hashes are {} and {}; {}", rank,
                  facts[i].name, to_hex(hash), to_hex(all[i]), facts[i].remedy);
    }
  }
}

std::vector<RankFact> facts_of_run(const RunSetup& setup, const Plan& plan) {
  return {{.name = "the settings",
           .remedy = "start every process with the same arguments",
           .hash = hash64(arguments_json(common_arguments(setup.arguments)))},
          {.name = "the training data",
           .remedy = "give every process the same files",
           .hash = setup.data.train_hash + static_cast<uint64_t>(setup.steps.length.rows_per_epoch)},
          {.name = "the collective operations",
           .remedy = "start every process with the same version of the program",
           .hash = hash_of_collectives(plan)},
          {.name = "the kernels",
           .remedy = "run all processes on one kind of CPU, with the same --num_threads",
           .hash = hash_of_kernels(plan)}};
}

RankFact fact_of_weights(Executor& executor) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  HashStream64 hash;
  std::vector<std::byte> piece;
  for (const PersistentBuffer& buffer : executor.plan().persistent) {
    if (buffer.storage != Storage::kWeight) continue;
    hash.update(buffer.name);
    const int64_t bytes = buffer.type.shape.elements({}) * dtype_bytes(buffer.type.dtype);
    for (int64_t offset = 0; offset < bytes; offset += kPiece) {
      piece.resize(static_cast<size_t>(std::min(kPiece, bytes - offset)));
      executor.read(buffer.name, offset, piece);
      hash.update(piece);
    }
  }
  return {.name = "the weights", .remedy = "give every process the same model files", .hash = hash.digest()};
}

}  // namespace plimsoll
