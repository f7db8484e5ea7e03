#include "train/checkpoint_saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "device/comm/blocked_signals.h"

namespace plimsoll {
namespace {

// The result of one step of a save (create, write, complete) on one rank: an error, or the parts of files that the rank has written.
struct StepResult {
  std::optional<Error> error;
  std::vector<WrittenPart> parts;
};

std::string encode(const StepResult& result) {
  if (result.error) return fmt::format("{} {}", static_cast<int>(result.error->code()), result.error->what());
  std::string text = "\n";
  const auto bytes = std::as_bytes(std::span(result.parts));
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text;
}

StepResult decode(const std::string& text) {
  static_assert(std::is_trivially_copyable_v<WrittenPart>);
  StepResult result;
  if (!text.starts_with('\n')) {
    const size_t space = text.find(' ');
    result.error = Error(static_cast<ErrorCode>(std::stoi(text.substr(0, space))), text.substr(space + 1));
    return result;
  }
  result.parts.resize((text.size() - 1) / sizeof(WrittenPart));
  std::memcpy(result.parts.data(), text.data() + 1, result.parts.size() * sizeof(WrittenPart));
  return result;
}

// Copies the values of the tensors into the buffer and changes `contents` so that the tensors are read from the buffer.
void copy_tensors(CheckpointContents& contents, std::span<std::byte> buffer) {
  for (std::vector<TensorSource>* tensors : {&contents.model.tensors, &contents.optimizer_tensors}) {
    for (TensorSource& tensor : *tensors) {
      const int64_t size = tensor.size_bytes();
      PLIMSOLL_CHECK(size <= std::ssize(buffer),
                     "the buffer for checkpoints has {} bytes left, but {} are needed for the tensor '{}'",
                     buffer.size(), size, tensor.name);
      for (int64_t offset = 0; offset < size && tensor.fill; offset += kFileChunkBytes) {
        const auto count = narrow<size_t>(std::min(kFileChunkBytes, size - offset));
        tensor.fill(offset, buffer.subspan(narrow<size_t>(offset), count));
      }
      if (!tensor.fill && size > 0) std::memcpy(buffer.data(), tensor.data, narrow<size_t>(size));
      tensor.data = buffer.data();
      tensor.fill = {};
      buffer = buffer.subspan(narrow<size_t>(size));
    }
  }
}

}  // namespace

struct CheckpointSaver::Job {
  CheckpointOrder order;
  Step step = Step::kAlone;
  std::unique_ptr<SharedCheckpoint> shared = {};  // null if this rank saves alone (Step::kAlone)
  std::string path = {};
  std::optional<Error> error = {};  // error of this rank in the current step of the save
  std::vector<WrittenPart> parts =
      {};  // The parts of files that this rank wrote; after the exchange, those of all ranks.
  std::atomic<bool> is_cancelled{false};
  std::atomic<bool> is_running{false};  // true while a thread works on the current step of the save
  // Declared last, so that its destructor joins the thread before the members that it uses are destroyed.
  std::jthread thread = {};
};

CheckpointSaver::CheckpointSaver(Session& session) : session_(session) {}

CheckpointSaver::~CheckpointSaver() {
  if (!job_ || !job_->shared) return;
  // Cancels the remaining steps of the save, because this rank cannot find out any more if the other ranks have failed.
  job_->is_cancelled = true;
  if (job_->thread.joinable()) job_->thread.join();
  discard(*job_);
}

// Removes the files that were written, unless the checkpoint is complete.
void CheckpointSaver::discard(Job& job) const {
  if (job.shared && session_.place().is_first()) job.shared->discard();
}

bool CheckpointSaver::ranks_share(const std::string& output_folder) {
  if (ranks_share_) return *ranks_share_;
  // Tests if the ranks share the folder: the first rank creates a file with a random number in its name, and the others look for it. The
  // number is sent as a double, which represents 2^52 numbers exactly.
  double token = 0;
  FileSystem& disk = posix_file_system();
  const auto path_of = [&] {
    return join_path(output_folder, fmt::format("{}shared-{:.0f}", kTemporaryPrefix, token));
  };
  if (session_.place().is_first()) {
    std::random_device random;
    token = 1.0 + static_cast<double>((uint64_t{random()} << 20) ^ random());
    try {
      make_folders(session_.files(), output_folder);
      write_synced_file(session_.files(), path_of(), "");
    } catch (const FileError&) {
      token = 0;  // A disk error is ignored here, because the save that follows reports it.
    }
  }
  session_.sum_over_ranks({&token, 1});
  const bool sees_file = token > 0 && disk.status(path_of()).has_value();
  ranks_share_ = !session_.is_true_on_any_rank(!sees_file);
  if (session_.place().is_first() && token > 0) remove_tree(session_.files(), path_of());
  return *ranks_share_;
}

bool CheckpointSaver::writes_together(const std::string& output_folder) {
  return !session_.place().is_alone() && ranks_share(output_folder);
}

bool CheckpointSaver::saves_in_background(const std::string& output_folder) {
  if (session_.checkpoint_buffer().empty()) return false;
  return session_.place().is_alone() || writes_together(output_folder);
}

std::string CheckpointSaver::remark(const std::string& output_folder) {
  const Arguments& arguments = session_.setup().arguments;
  if (!session_.place().is_alone() && !ranks_share(output_folder)) {
    return fmt::format(
        "the ranks do not share the folder {}: rank 0 writes all of each checkpoint, and training waits for "
        "it. "
        "Give every process an --output_dir on one shared file system",
        output_folder);
  }
  if (arguments.async_save && session_.checkpoint_buffer().empty()) {
    return "--async_save: the memory for a copy of the weights and the optimizer's states is not available, "
           "so training "
           "waits for each save. Allow more memory, or leave --async_save out";
  }
  return {};
}

std::unique_ptr<CheckpointSaver::Job> CheckpointSaver::make_job(CheckpointOrder order) {
  auto job = std::make_unique<Job>();
  job->order = std::move(order);
  if (!writes_together(job->order.output_folder)) return job;
  // On ranks other than the first one, session_.files() discards everything that is written (reading_file_system()), so that only one rank
  // writes the files of the run. The exception is a checkpoint that all ranks write together, so posix_file_system() is used here.
  const RankPlace& place = session_.place();
  FileSystem& files = place.is_first() ? session_.files() : posix_file_system();
  job->shared = std::make_unique<SharedCheckpoint>(files, job->order.output_folder, job->order.step,
                                                   std::move(job->order.contents), place.rank, place.size);
  job->step = Step::kCreateFiles;
  return job;
}

void CheckpointSaver::run_step(Job& job) const {
  const bool is_first = session_.place().is_first();
  try {
    switch (job.step) {
      case Step::kAlone:
        job.path =
            save_checkpoint(session_.files(), job.order.output_folder, job.order.step, job.order.contents);
        break;
      case Step::kCreateFiles:
        if (is_first) job.shared->create_files();
        break;
      case Step::kWriteParts:
        job.parts = job.shared->write_parts(job.is_cancelled);
        break;
      case Step::kCommit:
        job.path = is_first ? commit(job) : job.shared->path();
        job.parts.clear();
        break;
    }
    const bool is_complete = job.step == Step::kAlone || job.step == Step::kCommit;
    if (is_complete && is_first && job.order.after) job.order.after(job.path);
  } catch (const Error& error) {
    job.error = error;
  } catch (const std::exception& error) {
    job.error = Error(ErrorCode::kInternal, error.what());
  }
}

std::string CheckpointSaver::commit(Job& job) {
  try {
    return job.shared->commit(job.parts);
  } catch (const Error& error) {
    throw Error(error.code(), job.shared->not_saved_message(fmt::format("rank 0: {}", error.what())));
  }
}

void CheckpointSaver::start_thread(Job& job) const {
  job.is_running = true;
  // Signals are blocked in the new thread, so that the training thread receives them.
  const BlockedSignals blocked = BlockedSignals::all();
  job.thread = std::jthread([this, &job] {
    run_step(job);
    job.is_running = false;
  });
}

bool CheckpointSaver::agree(Job& job) {
  if (!job.shared) {
    if (job.error) throw *job.error;
    return true;
  }
  const std::vector<std::string> texts =
      session_.gather_texts(encode({.error = job.error, .parts = std::move(job.parts)}));
  job.parts.clear();
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    StepResult result = decode(texts[rank]);
    // An error of the last step of the save is thrown unchanged. Either its message already states that the checkpoint was not saved, or
    // the error comes from CheckpointOrder::after, which is called when the checkpoint is complete.
    if (result.error && job.step == Step::kCommit) throw *result.error;
    if (result.error) {
      throw Error(result.error->code(),
                  job.shared->not_saved_message(fmt::format("rank {}: {}", rank, result.error->what())));
    }
    job.parts.insert(job.parts.end(), result.parts.begin(), result.parts.end());
  }
  if (job.step == Step::kCommit) return true;
  job.step = job.step == Step::kCreateFiles ? Step::kWriteParts : Step::kCommit;
  return false;
}

std::string CheckpointSaver::save(CheckpointOrder order) {
  PLIMSOLL_CHECK(!is_saving(), "step {} cannot be saved before the previous save has ended", order.step);
  const std::unique_ptr<Job> job = make_job(std::move(order));
  try {
    do {
      run_step(*job);
    } while (!agree(*job));
  } catch (const Error&) {
    discard(*job);
    throw;
  }
  return job->path;
}

void CheckpointSaver::start(CheckpointOrder order) {
  PLIMSOLL_CHECK(!is_saving(), "step {} cannot be saved before the previous save has ended", order.step);
  std::unique_ptr<Job> job = make_job(std::move(order));
  if (job->shared) {
    job->shared->copy_to(session_.checkpoint_buffer());
  } else {
    copy_tensors(job->order.contents, session_.checkpoint_buffer());
  }
  job_ = std::move(job);
  start_thread(*job_);
}

bool CheckpointSaver::is_ready() const {
  return job_ != nullptr && !job_->is_running;
}

std::optional<std::string> CheckpointSaver::advance() {
  if (job_->thread.joinable()) job_->thread.join();
  bool is_complete = false;
  try {
    is_complete = agree(*job_);
  } catch (const Error&) {
    discard(*job_);
    job_.reset();
    throw;
  }
  if (!is_complete) {
    start_thread(*job_);
    return std::nullopt;
  }
  const std::string path = job_->path;
  job_.reset();
  return path;
}

std::optional<std::string> CheckpointSaver::finish() {
  std::optional<std::string> path;
  while (is_saving() && !path) path = advance();
  return path;
}

}  // namespace plimsoll
