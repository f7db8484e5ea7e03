// Encodes texts with Plimsoll's tokenizer for bench/tokenizer/compare.py, which checks every id and offset
// against the reference and compares throughput.
//
//   tokenizer_bench encode DIR TEXTS RESULT [--max_length N] [--strategy S] [--side left] [--no_special]
//                          [--threads N]
//   tokenizer_bench time   DIR TEXTS REPEATS THREADS
//
// TEXTS contains, per record, the number of texts (1 or 2) and then, per text, its length and bytes. RESULT
// contains, per record, the number of tokens and then ids, types, and begin and end of each offset. All
// numbers have 32 bits in the machine's byte order.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "io/text/tokenizer.h"

namespace plimsoll {
namespace {

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_error(ErrorCode::kBadData, "cannot read '{}'", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int64_t parse_number(std::string_view text) {
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{}) throw_error(ErrorCode::kUsage, "'{}' is not a number", text);
  return value;
}

std::vector<TextPair> parse_texts(std::string_view data) {
  const auto number = [&data] {
    uint32_t value = 0;
    if (data.size() < 4) throw_error(ErrorCode::kBadData, "the file of texts ends early");
    std::memcpy(&value, data.data(), 4);
    data.remove_prefix(4);
    return value;
  };
  std::vector<TextPair> texts;
  while (!data.empty()) {
    const bool pair = number() == 2;
    const auto next = [&] {
      const uint32_t size = number();
      if (data.size() < size) throw_error(ErrorCode::kBadData, "the file of texts ends early");
      const std::string_view bytes = data.substr(0, size);
      data.remove_prefix(size);
      return bytes;
    };
    TextPair record{next(), std::nullopt};
    if (pair) record.second = next();
    texts.push_back(record);
  }
  return texts;
}

void write_results(const std::vector<Encoding>& results, const char* path) {
  std::ofstream file(path, std::ios::binary);
  const auto put = [&file](const void* data, size_t bytes) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  };
  for (const Encoding& e : results) {
    const auto n = narrow<uint32_t>(e.ids.size());
    put(&n, 4);
    put(e.ids.data(), e.ids.size() * sizeof(int32_t));
    put(e.type_ids.data(), e.type_ids.size() * sizeof(int32_t));
    put(e.offsets.data(), e.offsets.size() * sizeof(TextSpan));
  }
}

int encode(const std::vector<std::string>& args) {
  const auto tokenizer = Tokenizer::load(args.at(0));
  const std::string data = read_file(args.at(1).c_str());
  EncodeOptions options;
  int threads = 1;
  for (size_t i = 3; i < args.size(); ++i) {
    if (args[i] == "--max_length") options.max_length = parse_number(args.at(++i));
    if (args[i] == "--side" && args.at(++i) == "left") options.truncation_side = TextSide::kLeft;
    if (args[i] == "--no_special") options.special_tokens = SpecialTokens::kOmit;
    if (args[i] == "--threads") threads = narrow<int>(parse_number(args.at(++i)));
    if (args[i] == "--strategy") {
      const std::string& name = args.at(++i);
      options.truncation = name == "only_first"    ? Truncation::kOnlyFirst
                           : name == "only_second" ? Truncation::kOnlySecond
                                                   : Truncation::kLongestFirst;
    }
  }
  write_results(tokenizer->encode_batch(parse_texts(data), options, threads), args.at(2).c_str());
  return 0;
}

// Returns the time of the fastest of `repeats` runs in seconds.
template <typename Run>
double best_seconds(int64_t repeats, Run&& run) {
  double best = 1e30;
  for (int64_t i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

int time(const std::vector<std::string>& args) {
  const auto start = std::chrono::steady_clock::now();
  const auto tokenizer = Tokenizer::load(args.at(0));
  const double load = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string data = read_file(args.at(1).c_str());
  const std::vector<TextPair> texts = parse_texts(data);
  const int64_t repeats = parse_number(args.at(2));
  const int threads = narrow<int>(parse_number(args.at(3)));
  int64_t num_tokens = 0;
  const double one_by_one = best_seconds(repeats, [&] {
    num_tokens = 0;
    for (const TextPair& text : texts) {
      num_tokens += narrow<int64_t>(tokenizer->encode(text.first).ids.size());
    }
  });
  Encoding all;
  TokenizerScratch scratch;
  const double append = best_seconds(repeats, [&] {
    all.clear();
    for (const TextPair& text : texts) tokenizer->append(text, {}, scratch, &all);
  });
  const double append_ids = best_seconds(repeats, [&] {
    all.clear();
    for (const TextPair& text : texts) tokenizer->append(text, {.offsets = Offsets::kSkip}, scratch, &all);
  });
  const double batch = best_seconds(repeats, [&] { tokenizer->encode_batch(texts, {}, 1); });
  const double batch_threads = best_seconds(repeats, [&] { tokenizer->encode_batch(texts, {}, threads); });
  fmt::print(
      "{{\"load_s\": {}, \"tokens\": {}, \"encode_s\": {}, \"append_s\": {}, \"append_ids_s\": {}, "
      "\"batch_s\": {}, \"batch_threads_s\": {}}}\n",
      load, num_tokens, one_by_one, append, append_ids, batch, batch_threads);
  return 0;
}

int run(const std::vector<std::string>& args) {
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (args[0] == "encode" && rest.size() >= 3) return encode(rest);
  if (args[0] == "time" && rest.size() == 4) return time(rest);
  throw_error(ErrorCode::kUsage,
              "wrong arguments; the comment at the top of tokenizer_bench.cc describes them");
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  try {
    return plimsoll::run(std::vector<std::string>(argv + (argc > 1 ? 1 : 0), argv + argc));
  } catch (const plimsoll::Error& error) {
    fmt::print(stderr, "tokenizer_bench: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
