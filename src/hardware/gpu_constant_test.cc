#include "hardware/gpu_constant.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

template <typename Work>
std::string refusal(ErrorCode code, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "not refused";
}

TEST(GpuConstant, IsTheMostThatARunHeldAndRoomForOtherShapes) {
  EXPECT_EQ(gpu_constant_bytes(std::vector<int64_t>{527 * kMiB, 531 * kMiB, 530 * kMiB}),
            531 * kMiB + kOtherShapesBytes);
}

TEST(GpuConstant, IsRefusedWhereOthersUsedTheCard) {
  for (const std::vector<int64_t>& held :
       {std::vector<int64_t>{}, {527 * kMiB, 1100 * kMiB}, {-300 * kMiB, -290 * kMiB}}) {
    const std::string message =
        refusal(ErrorCode::kUsage, [&] { static_cast<void>(gpu_constant_bytes(held)); });
    EXPECT_NE(message.find(held.empty() ? "none of the runs" : "other processes"), std::string::npos)
        << message;
  }
}

TEST(GpuConstant, TextRoundTripsAndSaysItsSource) {
  const MeasuredGpuConstant constant{
      .card = "NVIDIA X", .driver = "580.1", .build = "a build", .date = "2026-11-23", .bytes = 560 * kMiB};
  EXPECT_EQ(parse_gpu_constant(gpu_constant_json(constant), "memory"), constant);
  EXPECT_EQ(describe_gpu_constant(constant), "measured here on 2026-11-23, NVIDIA X, driver 580.1");
}

TEST(GpuConstant, RefusesWhatItCannotUse) {
  const std::string text =
      gpu_constant_json({.card = "c", .driver = "d", .build = "b", .date = "e", .bytes = 1});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{",
       "gpu.json: not a valid constant of a GPU: line 1, column 1: not valid JSON: unexpected end of input; "
       "expected string literal, in '{'. "
       "plimsoll bench --calibrate --device cuda:N"},
      {"[]", "not a valid constant of a GPU: the file must contain a JSON object"},
      {with("\"card\"", "\"x\""), "the key 'card' is missing"},
      {with("\"bytes\": 1", "\"bytes\": \"1\""), "'bytes' must be a number, but is of type string"},
      {with("\"bytes\": 1", "\"bytes\": 0"), "'bytes' must be positive, but is 0"},
      {with("_version\": 1", "_version\": 9"), "has schema version 9, but this program reads version 1"}};
  for (const auto& [broken, said] : cases) {
    const std::string message =
        refusal(ErrorCode::kBadData, [&] { static_cast<void>(parse_gpu_constant(broken, "gpu.json")); });
    EXPECT_TRUE(message.starts_with("gpu.json: ")) << message;
    EXPECT_NE(message.find(said), std::string::npos) << message;
  }
}

// Sizes of the arenas of runs on two GPUs, and the number of bytes by which the memory outside the arena, as reported by NVML, exceeds that
// of a run on one GPU of the same kind: GPT-2, BERT-large and TinyLlama, divided in two ways, and a Llama of 9.8B parameters.
TEST(GpuConstant, MappingAnArenaNeedsAFivehundredTwelfthOfIt) {
  struct Measured {
    double arena_gib, mib;
  };
  for (const Measured& measured : {Measured{3.0, 6}, Measured{4.6, 3}, Measured{6.5, 9}, Measured{11.2, 20},
                                   Measured{11.3, 22}, Measured{19.4, 39}, Measured{65.7, 125}}) {
    const double planned =
        static_cast<double>(peer_mapping_bytes(static_cast<int64_t>(measured.arena_gib * 1024 * kMiB))) /
        kMiB;
    EXPECT_GE(planned, measured.mib - 1) << measured.arena_gib;
    EXPECT_LE(planned, measured.mib + 8) << measured.arena_gib;
  }
  EXPECT_EQ(peer_mapping_bytes(513), 2);
}

}  // namespace
}  // namespace plimsoll
