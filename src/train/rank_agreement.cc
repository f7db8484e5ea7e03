#include "train/rank_agreement.h"

#include <algorithm>
#include <memory>
#include <string>

#include "base/hash.h"
#include "graph/ops/op.h"
#include "graph/ops/slice.h"
#include "hardware/cpu_target.h"
#include "models/config.h"

namespace plimsoll {
namespace {

// Returns the arguments except those that may differ between ranks: where each process reads and writes files, and what it prints.
Arguments common_arguments(Arguments arguments) {
  const Arguments defaults;
  arguments.output_dir = defaults.output_dir;
  arguments.json = defaults.json;
  arguments.html = defaults.html;
  arguments.trace = defaults.trace;
  arguments.event_fd = defaults.event_fd;
  arguments.save_logits = defaults.save_logits;
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
      hash.update(
          fmt::format("{} {} {}", program.name, op.def->name(), mesh_axis_name(mesh_axis_of(op.attributes))));
      for (const ValueId id : op.inputs) hash.update(" " + format_type(program.graph.value(id).type));
      hash.update("\n");
    }
  }
  return hash.digest();
}

// Returns a hash of what the pipeline stages send to one another, and in which order. Every rank has the plans of all stages, and
// planning has checked that the stages do not wait for each other forever.
uint64_t hash_of_messages(const Plan& plan) {
  HashStream64 hash;
  const auto add = [&](const std::vector<StageAction>& actions) {
    for (const StageAction& action : actions) {
      if (action.kind == StageAction::Kind::kCompute) continue;
      hash.update(fmt::format("{} {} {} {} {} {} {}\n", static_cast<int>(action.kind), action.chunk,
                              action.peer, action.channel, action.value, action.bytes, action.offset));
    }
    hash.update("\n");
  };
  for (const StagePlan& stage : plan.stages) {
    for (const std::vector<StageAction>& actions : stage.train) add(actions);
    add(stage.evaluate);
    for (const StageExchange& exchange : stage.exchanges)
      hash.update(fmt::format("{} {}\n", mesh_axis_name(exchange.axis), exchange.offset));
    for (const ScheduleEntry& entry : stage.step_schedule)
      hash.update(fmt::format("{} {} {} {}\n", segment_name(entry.segment), entry.delay, entry.num_chunks,
                              entry.round));
  }
  return hash.digest();
}

// Returns a hash of the kernels and, on a CPU, of the number of threads. Both must be equal on all ranks, because other kernels, or sums
// over another number of threads, round differently.
uint64_t hash_of_kernels(const Plan& plan) {
  HashStream64 hash;
  const DeviceOptions& device = plan.request.device;
  hash.update(device.is_gpu() ? device.gpu.product
                              : fmt::format("{} {}", cpu_isa_name(device.isa), device.num_threads));
  for (const ProgramPlan& program : plan.programs) {
    for (const OpPlan& op : program.ops) {
      hash.update(op.kernel->implementation);
      hash.update("\n");
    }
  }
  return hash.digest();
}

// Returns a hash of the tokens and labels of the data sets that a run evaluates or predicts.
uint64_t hash_of_evaluated(const DataSets& data) {
  HashStream64 hash;
  const auto add = [&](const auto& values) { hash.update(std::as_bytes(std::span(values))); };
  for (const std::optional<Dataset>* set :
       {&data.evaluate, &data.evaluate_mismatched, &data.predict, &data.predict_mismatched}) {
    hash.update(*set ? "set" : "none");
    if (!*set) continue;
    add((*set)->tokens.narrow_ids());
    add((*set)->tokens.wide_ids());
    add((*set)->tokens.offsets());
    add((*set)->labels.classes);
    add((*set)->labels.values);
  }
  return hash.digest();
}

// Returns a hash of the weights or of the optimizer states, which must be equal on all ranks. Of a buffer that the ranks divide, each rank
// stores another slice. If such a buffer is a weight, the hash covers the whole weight as it was passed to the executor, which stored only
// this rank's slice. If it is an optimizer state, it is left out.
uint64_t hash_of_buffers(Executor& executor, Storage storage) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  HashStream64 hash;
  std::vector<std::byte> piece;
  for (const PersistentBuffer& buffer : executor.plan().persistent) {
    if (buffer.storage != storage || !buffer.is_whole()) continue;
    hash.update(buffer.name);
    const int64_t bytes = buffer.elements() * dtype_bytes(buffer.type.dtype);
    for (int64_t offset = 0; offset < bytes; offset += kPiece) {
      piece.resize(static_cast<size_t>(std::min(kPiece, bytes - offset)));
      executor.read_own(buffer.name, offset, piece);
      hash.update(piece);
    }
  }
  if (storage == Storage::kWeight) hash.update(to_hex(executor.hash_of_divided_writes()));
  return hash.digest();
}

}  // namespace

uint64_t hash_of_program(FileSystem& files) {
  constexpr size_t kPiece = size_t{1} << 20;
  const std::unique_ptr<File> file = files.open_read("/proc/self/exe");
  HashStream64 hash;
  std::vector<std::byte> piece(kPiece);
  for (int64_t offset = 0;;) {
    const int64_t count = file->pread(piece, offset);
    if (count == 0) return hash.digest();
    hash.update(std::span(piece).first(static_cast<size_t>(count)));
    offset += count;
  }
}

void require_equal_facts(Communicator& communicator, std::span<const RankFact> facts, const RankMesh& mesh) {
  std::vector<uint64_t> own, all(facts.size() * static_cast<size_t>(communicator.size()));
  for (const RankFact& fact : facts) own.push_back(fact.hash);
  communicator.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  for (size_t i = 0; i < facts.size(); ++i) {
    for (size_t rank = 1; rank < static_cast<size_t>(communicator.size()); ++rank) {
      const uint64_t hash = all[rank * facts.size() + i];
      const int first = facts[i].is_of_stage ? mesh.rank_at(mesh.stage(static_cast<int>(rank)), 0, 0) : 0;
      const uint64_t wanted = all[static_cast<size_t>(first) * facts.size() + i];
      if (hash == wanted) continue;
      throw_error(ErrorCode::kUsage, "rank {} does not have {} of rank {}: the hashes are {} and {}; {}",
                  rank, facts[i].name, first, to_hex(hash), to_hex(wanted), facts[i].remedy);
    }
  }
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own) {
  const auto num_ranks = static_cast<size_t>(communicator.size());
  const uint64_t own_size = own.size();
  std::vector<uint64_t> sizes(num_ranks);
  communicator.all_gather(std::as_bytes(std::span(&own_size, 1)), std::as_writable_bytes(std::span(sizes)));
  const uint64_t largest = std::max<uint64_t>(1, *std::ranges::max_element(sizes));
  std::string padded = own;
  padded.resize(largest);
  std::string all(num_ranks * largest, '\0');
  communicator.all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < num_ranks; ++rank) texts.push_back(all.substr(rank * largest, sizes[rank]));
  return texts;
}

void require_equal_settings(Communicator& communicator, const Arguments& arguments) {
  const std::vector<std::string> texts =
      gather_texts(communicator, arguments_json(common_arguments(arguments)));
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const Arguments first = arguments_from_json(texts[0], "the settings of rank 0");
    const Arguments other = arguments_from_json(texts[rank], "the settings of a rank");
    std::string names;
    std::string_view remedy = "start every process with the same arguments";
    for (const ArgumentDifference& difference : diff_arguments(first, other)) {
      if (difference.name == "nproc_per_node") remedy = "start the same number of processes on every machine";
      names += fmt::format("{}--{} is {} and {}", names.empty() ? "" : ", ", difference.name,
                           difference.before.empty() ? "not set" : difference.before,
                           difference.after.empty() ? "not set" : difference.after);
    }
    throw_error(ErrorCode::kUsage, "rank 0 and rank {} have different settings: {}; {}", rank,
                names.empty() ? "secrets" : names, remedy);
  }
}

std::vector<RankFact> facts_of_run(const RunSetup& setup, const Plan& plan) {
  return {
      {.name = "the model",
       .remedy = "give every process the same model files",
       .hash = hash64(model_config_json(setup.model.config))},
      {.name = "the training data",
       .remedy = "give every process the same files",
       .hash = setup.data.train_hash + static_cast<uint64_t>(setup.steps.length.rows_per_epoch)},
      {.name = "the validation and test data",
       .remedy = "give every process the same files",
       .hash = hash_of_evaluated(setup.data)},
      {.name = "the collective operations",
       .remedy =
           "the order of exchanges depends on measured times: give every process the same --calibration and "
           "--link_calibration, or turn both off",
       .hash = hash_of_collectives(plan),
       .is_of_stage = true},
      {.name = "the messages between the stages",
       .remedy = "start every process with the same version of the program and the same --num_threads",
       .hash = hash_of_messages(plan)},
      {.name = "the kernels",
       .remedy = "run all processes on one kind of GPU, or on one kind of CPU with the same --num_threads",
       .hash = hash_of_kernels(plan),
       .is_of_stage = true}};
}

RankFact fact_of_weights(Executor& executor, std::string_view remedy) {
  return {.name = "the weights",
          .remedy = remedy,
          .hash = hash_of_buffers(executor, Storage::kWeight),
          .is_of_stage = true};
}

RankFact fact_of_states(Executor& executor, std::string_view remedy) {
  return {.name = "the optimizer's states",
          .remedy = remedy,
          .hash = hash_of_buffers(executor, Storage::kOptimizerState),
          .is_of_stage = true};
}

}  // namespace plimsoll
