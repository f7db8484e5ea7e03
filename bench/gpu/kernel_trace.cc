// A library that the CUDA driver loads into any program. When the program ends, it reports the share of time in which
// the GPU was busy, and in which kernels. With it one can see if the GPU waits for the host.
//
//   CUDA_INJECTION64_PATH=$PWD/libkernel_trace.so plimsoll train ...
//
//   KERNEL_TRACE_FILE     the output file (default: standard error)
//   KERNEL_TRACE_SPANS    a file for the start and the end of each record in nanoseconds, its stream and its name
//   KERNEL_TRACE_GRAPHS   1: one record per launched CUDA graph instead of one per kernel
//
// In the name of a file, %p is replaced by the number of the process, so that each rank of a run writes its own files.
//
// Records per graph cost the program almost nothing, but count the pauses between two kernels of a graph as
// work. With a record per kernel, CUPTI itself makes these pauses longer. The true value is between the two.
//
// The report covers only the kernels (or graphs) from 40 % to 90 % of the list, which excludes the measurement of
// kernels at the start of a run and its output at the end. Times come from CUPTI's activity records (CUDA Toolkit,
// "CUPTI Activity API"), in nanoseconds.
#include <cupti.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Span {
  uint64_t start;
  uint64_t end;
  std::string name;
  bool is_copy = false;  // true if the activity is a copy or a fill of memory
  uint32_t stream = 0;
};

constexpr size_t kBufferBytes = size_t{8} << 20;
constexpr size_t kBufferAlignment = 8;
constexpr size_t kLongestName = 90;
constexpr size_t kNamesPrinted = 25;

// Records arrive on a thread of CUPTI; the thread that ends the program writes the report.
struct Trace {
  std::mutex mutex;
  std::vector<Span> spans;
  size_t dropped = 0;
};

Trace& trace() {
  // This object is never destroyed, because CUPTI may deliver records while the program's static objects are being
  // destroyed.
  static auto* const all = new Trace;
  return *all;
}

bool by_kernel() {
  const char* value = std::getenv("KERNEL_TRACE_GRAPHS");
  return value == nullptr || std::string(value) != "1";
}

void must(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return;
  const char* words = nullptr;
  cuptiGetResultString(result, &words);
  std::fprintf(stderr, "kernel_trace: %s: %s\n", what, words != nullptr ? words : "unknown error");
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;
}

// Converts a record of CUPTI to a Span. Later versions of CUPTI only add members at the end of a record, so their
// records can be read too.
Span span_of(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      return {kernel->start, kernel->end, kernel->name, false, kernel->streamId};
    }
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: {
      const auto* graph = reinterpret_cast<const CUpti_ActivityGraphTrace*>(record);
      return {graph->start, graph->end, "graph " + std::to_string(graph->graphId)};
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
      return {copy->start, copy->end, "copy of kind " + std::to_string(int{copy->copyKind}), true,
              copy->streamId};
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4*>(record);
      return {copy->start, copy->end, "copy between GPUs", true, copy->streamId};
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto* fill = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      return {fill->start, fill->end, "fill", true, fill->streamId};
    }
    default:
      return {};
  }
}

void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t /*bytes*/,
                          size_t valid) {
  CUpti_Activity* record = nullptr;
  const std::lock_guard lock(trace().mutex);
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    Span span = span_of(record);
    if (span.end > span.start) trace().spans.push_back(std::move(span));
  }
  size_t dropped = 0;
  cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
  trace().dropped += dropped;
  std::free(buffer);
}

struct Total {
  uint64_t ns = 0;
  size_t count = 0;
};

// Orders the kernels and copies by start time and returns those in the middle of the run: from 40 % to 90 % of its
// kernels.
std::vector<Span> steady_part(std::vector<Span> spans) {
  std::ranges::sort(spans, {}, &Span::start);
  const auto kernels = static_cast<size_t>(std::ranges::count(spans, false, &Span::is_copy));
  std::vector<Span> part;
  size_t number = 0;
  for (Span& span : spans) {
    if (!span.is_copy) ++number;
    if (10 * number > 4 * kernels && 10 * number <= 9 * kernels) part.push_back(std::move(span));
  }
  return part;
}

// window_ns is the time from the start of the first kernel or copy to the end of the last one; busy_ns is the part of this time in which at
// least one kernel or copy runs. `pauses` adds up the time in which none runs, by the names of the kernels before and after each pause.
struct Work {
  uint64_t busy_ns = 0;
  uint64_t window_ns = 0;
  std::map<std::string, Total> pauses;
};

Work work_of(const std::vector<Span>& spans) {
  Work work;
  const Span* last = &spans.front();
  uint64_t end = last->start;
  for (const Span& span : spans) {
    if (span.start > end) {
      Total& pause =
          work.pauses[last->name.substr(0, kLongestName / 2) + " > " + span.name.substr(0, kLongestName / 2)];
      pause.ns += span.start - end;
      ++pause.count;
    }
    if (span.end <= end) continue;
    work.busy_ns += span.end - std::max(end, span.start);
    end = span.end;
    last = &span;
  }
  work.window_ns = end - spans.front().start;
  return work;
}

void print_totals(FILE* out, const std::map<std::string, Total>& totals, uint64_t window_ns,
                  const char* what) {
  std::vector<std::pair<std::string, Total>> sorted(totals.begin(), totals.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  std::fprintf(out, "%10s %7s %8s %10s  %s\n", "ms", "share", "count", "us each", what);
  for (size_t i = 0; i < std::min(sorted.size(), kNamesPrinted); ++i) {
    const auto& [name, total] = sorted[i];
    const auto ns = static_cast<double>(total.ns);
    std::fprintf(out, "%10.3f %6.2f%% %8zu %10.2f  %s\n", 1e-6 * ns,
                 100.0 * ns / static_cast<double>(window_ns), total.count,
                 1e-3 * ns / static_cast<double>(total.count), name.substr(0, kLongestName).c_str());
  }
}

// Opens a file whose name may contain %p. If that fails, prints the reason and returns null.
FILE* open_output(std::string path) {
  if (const size_t at = path.find("%p"); at != std::string::npos)
    path.replace(at, 2, std::to_string(getpid()));
  FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) std::perror(path.c_str());
  return file;
}

void write_spans(const char* path, const std::vector<Span>& spans) {
  FILE* file = open_output(path);
  if (file == nullptr) return;
  for (const Span& span : spans) {
    std::fprintf(file, "%llu\t%llu\t%u\t%s\n", static_cast<unsigned long long>(span.start),
                 static_cast<unsigned long long>(span.end), span.stream, span.name.c_str());
  }
  std::fclose(file);
}

void print_report(FILE* out) {
  const std::vector<Span> spans = steady_part(std::move(trace().spans));
  if (const char* path = std::getenv("KERNEL_TRACE_SPANS")) write_spans(path, spans);
  if (spans.empty()) {
    std::fprintf(out, "kernel_trace: no record\n");
    return;
  }
  const Work work = work_of(spans);
  std::fprintf(out, "kernel_trace: the GPU was at work %.2f %% of %.3f ms, %zu records%s, %zu dropped\n",
               100.0 * static_cast<double>(work.busy_ns) / static_cast<double>(work.window_ns),
               1e-6 * static_cast<double>(work.window_ns), spans.size(), by_kernel() ? "" : " (one a graph)",
               trace().dropped);
  std::map<std::string, Total> totals;
  for (const Span& span : spans) {
    Total& total = totals[span.name];
    total.ns += span.end - span.start;
    ++total.count;
  }
  print_totals(out, totals, work.window_ns, "name");
  print_totals(out, work.pauses, work.window_ns, "pause between");
}

void report() {
  must(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "the last records are missing");
  const std::lock_guard lock(trace().mutex);
  const char* path = std::getenv("KERNEL_TRACE_FILE");
  FILE* out = path != nullptr ? open_output(path) : stderr;
  if (out == nullptr) out = stderr;
  print_report(out);
  if (out != stderr) std::fclose(out);
}

}  // namespace

// The entry point that the driver calls in a library of CUDA_INJECTION64_PATH. Returns 1 for success.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  must(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "no buffers");
  must(cuptiActivityEnable(by_kernel() ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
                                       : CUPTI_ACTIVITY_KIND_GRAPH_TRACE),
       "no records of kernels");
  must(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), "no records of copies");
  must(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY2), "no records of copies between GPUs");
  must(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET), "no records of fills");
  std::atexit(report);
  return 1;
}
