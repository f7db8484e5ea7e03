// Compares the collective operations with plain sums. Ranks are threads. Failures of processes are tested in communicator_failure_test.cc.
#include "device/comm/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/dtype.h"
#include "base/rank_mesh.h"
#include "device/comm/collectives.h"
#include "device/comm/testing/rank_threads.h"

namespace plimsoll {
namespace {

using Bytes = std::vector<std::byte>;

// Returns small integers, so that every order of addition gives the exact sum, also in 16 bits.
double exact_element(int rank, int64_t i) {
  return static_cast<double>((i * 7 + rank * 13) % 17 - 8);
}

// Returns elements whose sum depends on the order of addition.
double rough_element(int rank, int64_t i) {
  const auto hash = (static_cast<uint64_t>(rank) * 1000003 + static_cast<uint64_t>(i)) * 0x9e3779b97f4a7c15;
  return (static_cast<double>(hash >> 11) * 0x1p-53 - 0.5) * (i % 5 == 0 ? 1e4 : 1.0);
}

Bytes make_elements(DType dtype, int64_t count, int rank, double (*element)(int, int64_t)) {
  Bytes bytes(static_cast<size_t>(count * dtype_bytes(dtype)));
  const View view{bytes.data(), dtype};
  for (int64_t i = 0; i < count; ++i) view.store(i, element(rank, i));
  return bytes;
}

struct Sum {
  DType dtype;
  int64_t count;
};

// Runs these calls of all_reduce() on each rank and returns the data of each rank afterwards.
std::vector<std::vector<Bytes>> reduce_on_ranks(int size, const std::vector<Sum>& sums,
                                                double (*element)(int, int64_t)) {
  std::vector<std::vector<Bytes>> results(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    for (const Sum& sum : sums)
      results[static_cast<size_t>(rank)].push_back(make_elements(sum.dtype, sum.count, rank, element));
  }
  run_ranks(size, [&](Communicator& ranks) {
    for (size_t k = 0; k < sums.size(); ++k) {
      ranks.all_reduce({results[static_cast<size_t>(ranks.rank())][k].data(), sums[k].dtype}, sums[k].count);
    }
  });
  return results;
}

// Returns all pairs of an element type and a number of elements to test.
std::vector<Sum> sums_of(const std::vector<DType>& dtypes, const std::vector<int64_t>& counts) {
  std::vector<Sum> sums;
  for (const DType dtype : dtypes) {
    for (const int64_t count : counts) sums.push_back({dtype, count});
  }
  return sums;
}

class AllReduce : public ::testing::TestWithParam<int> {};

TEST_P(AllReduce, EveryTypeAndSizeIsThePlainSum) {
  const int size = GetParam();
  const auto sums = sums_of({DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kBF16, DType::kF16},
                            {0, 1, 2, 3, 7, 1000, 70001});
  const auto results = reduce_on_ranks(size, sums, &exact_element);
  for (size_t k = 0; k < sums.size(); ++k) {
    Bytes expected(results[0][k].size());
    for (int64_t i = 0; i < sums[k].count; ++i) {
      double sum = 0;
      for (int rank = 0; rank < size; ++rank) sum += exact_element(rank, i);
      View{expected.data(), sums[k].dtype}.store(i, sum);
    }
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(results[static_cast<size_t>(rank)][k], expected)
          << sums[k].count << " elements of type " << dtype_name(sums[k].dtype) << " on rank " << rank;
    }
  }
}

TEST_P(AllReduce, AllRanksHaveTheSameBitsInEveryRun) {
  const int size = GetParam();
  const auto sums = sums_of({DType::kF32, DType::kF64, DType::kBF16, DType::kF16}, {5, 70001});
  const auto first = reduce_on_ranks(size, sums, &rough_element);
  for (int rank = 1; rank < size; ++rank)
    EXPECT_EQ(first[static_cast<size_t>(rank)], first[0]) << "rank " << rank;
  EXPECT_EQ(reduce_on_ranks(size, sums, &rough_element), first);
}

TEST_P(AllReduce, HalvesAreAddedInFp32InTheOrderOfTheRanksAndRoundedOnce) {
  const int size = GetParam();
  const auto sums = sums_of({DType::kBF16, DType::kF16}, {2000});
  const auto results = reduce_on_ranks(size, sums, &rough_element);
  for (size_t k = 0; k < sums.size(); ++k) {
    const auto [dtype, count] = sums[k];
    std::vector<Bytes> inputs;
    inputs.reserve(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank)
      inputs.push_back(make_elements(dtype, count, rank, &rough_element));
    Bytes expected(results[0][k].size());
    for (int64_t i = 0; i < count; ++i) {
      float sum = static_cast<float>(ConstView{inputs[0].data(), dtype}.load(i));
      for (int rank = 1; rank < size; ++rank) {
        sum += static_cast<float>(ConstView{inputs[static_cast<size_t>(rank)].data(), dtype}.load(i));
      }
      View{expected.data(), dtype}.store(i, sum);
    }
    EXPECT_EQ(results[0][k], expected) << dtype_name(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllReduce, ::testing::Values(1, 2, 3, 4, 8));

// Checks the order of additions in a ring that collectives.h documents: the sums of each chunk start at a different rank.
TEST(Communicator, Fp32IsAddedInTheOrderOfTheRing) {
  constexpr int kSize = 4;
  constexpr int64_t kChunk = 20000;
  static_assert(kSize * kChunk * sizeof(float) > kDirectBytes);
  const auto results = reduce_on_ranks(kSize, {{DType::kF32, kSize * kChunk}}, &rough_element);
  for (int64_t i = 0; i < kSize * kChunk; ++i) {
    const int first = static_cast<int>(i / kChunk);
    float sum = static_cast<float>(rough_element(first, i));
    for (int k = 1; k < kSize; ++k) sum += static_cast<float>(rough_element((first + k) % kSize, i));
    ASSERT_EQ((ConstView{results[0][0].data(), DType::kF32}.load(i)), static_cast<double>(sum)) << i;
  }
}

TEST(Communicator, TwoRanksAddExactlyOnce) {
  constexpr int64_t kCount = 5001;
  const auto results = reduce_on_ranks(2, {{DType::kF32, kCount}}, &rough_element);
  for (int64_t i = 0; i < kCount; ++i) {
    const float sum = static_cast<float>(rough_element(0, i)) + static_cast<float>(rough_element(1, i));
    for (const auto& rank : results) {
      ASSERT_EQ((ConstView{rank[0].data(), DType::kF32}.load(i)), static_cast<double>(sum)) << i;
    }
  }
}

TEST(Communicator, IntegersWrapAround) {
  run_ranks(2, [](Communicator& ranks) {
    int32_t value = ranks.rank() == 0 ? INT32_MAX : 1;
    ranks.all_reduce({&value, DType::kI32}, 1);
    EXPECT_EQ(value, INT32_MIN);
  });
}

// The data is so large that it is sent in many messages (segments) and summed in many blocks. Its
// size is not a multiple of their sizes.
TEST(Communicator, SumsOf64MiB) {
  constexpr int kSize = 3;
  constexpr int64_t kBytes = (int64_t{64} << 20) + 12340;
  const auto element = [](int rank, int64_t i) { return static_cast<float>((i % 128) * (rank + 1)); };
  run_ranks(kSize, [&](Communicator& ranks) {
    std::vector<float> floats(kBytes / 4);
    std::vector<BF16> halves(kBytes / 2);
    for (size_t i = 0; i < floats.size(); ++i) floats[i] = element(ranks.rank(), static_cast<int64_t>(i));
    for (size_t i = 0; i < halves.size(); ++i)
      halves[i].bits = f32_to_bf16(element(ranks.rank(), static_cast<int64_t>(i)));
    ranks.all_reduce({floats.data(), DType::kF32}, kBytes / 4);
    ranks.all_reduce({halves.data(), DType::kBF16}, kBytes / 2);
    std::array<float, 128> sums = {};
    std::array<uint16_t, 128> rounded_sums = {};
    for (size_t i = 0; i < sums.size(); ++i) {
      float of_halves = 0;
      for (int rank = 0; rank < kSize; ++rank) {
        sums[i] += element(rank, static_cast<int64_t>(i));
        of_halves += bf16_to_f32(f32_to_bf16(element(rank, static_cast<int64_t>(i))));
      }
      rounded_sums[i] = f32_to_bf16(of_halves);
    }
    int64_t num_wrong = 0;
    for (size_t i = 0; i < floats.size(); ++i) num_wrong += floats[i] == sums[i % 128] ? 0 : 1;
    for (size_t i = 0; i < halves.size(); ++i) num_wrong += halves[i].bits == rounded_sums[i % 128] ? 0 : 1;
    EXPECT_EQ(num_wrong, 0) << "on rank " << ranks.rank();
  });
}

TEST(Communicator, BroadcastsFromEachRank) {
  for (const int size : {1, 2, 3, 4, 8}) {
    run_ranks(size, [&](Communicator& ranks) {
      for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1000}, (size_t{3} << 20) + 5}) {
        for (int root = 0; root < size; ++root) {
          const auto fill = static_cast<std::byte>(root + 1);
          Bytes data(bytes, ranks.rank() == root ? fill : std::byte{0});
          ranks.broadcast(data, root);
          EXPECT_EQ(data, Bytes(bytes, fill))
              << bytes << " bytes from rank " << root << " on rank " << ranks.rank();
        }
      }
    });
  }
}

TEST(Communicator, GathersInTheOrderOfTheRanks) {
  for (const int size : {1, 2, 3, 8}) {
    run_ranks(size, [&](Communicator& ranks) {
      for (const size_t bytes : {size_t{0}, size_t{1}, size_t{13}, (size_t{2} << 20) + 3}) {
        const Bytes mine(bytes, static_cast<std::byte>(ranks.rank() + 1));
        Bytes all(bytes * static_cast<size_t>(size));
        ranks.all_gather(mine, all);
        for (int rank = 0; rank < size; ++rank) {
          const auto* block = all.data() + bytes * static_cast<size_t>(rank);
          EXPECT_EQ(std::count(block, block + bytes, static_cast<std::byte>(rank + 1)),
                    static_cast<std::ptrdiff_t>(bytes));
        }
      }
    });
  }
}

TEST(Communicator, NoRankLeavesABarrierBeforeAllEntered) {
  constexpr int kSize = 4;
  constexpr int kRounds = 20;
  std::atomic<int> entered = 0;
  run_ranks(kSize, [&](Communicator& ranks) {
    for (int round = 0; round < kRounds; ++round) {
      if (round % kSize == ranks.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++entered;
      ranks.barrier();
      EXPECT_GE(entered, (round + 1) * kSize);
    }
  });
}

TEST(Communicator, RanksMayLeaveWhileOthersFinish) {
  for (int repetition = 0; repetition < 5; ++repetition) {
    run_ranks(3, [&](Communicator& ranks) {
      Bytes data(size_t{2} << 20, ranks.rank() == repetition % 3 ? std::byte{7} : std::byte{0});
      ranks.broadcast(data, repetition % 3);
      EXPECT_EQ(data.back(), std::byte{7});
    });
  }
}

TEST(Communicator, APlaceOutsideTheRunIsRefused) {
  for (const RankPlace& place :
       {RankPlace{.rank = 2, .size = 2}, RankPlace{.rank = -1, .size = 2}, RankPlace{.size = 0}}) {
    EXPECT_EQ(error_of([&] { connect_ranks(place); }).code, ErrorCode::kUsage);
  }
  EXPECT_EQ(error_of([] { connect_ranks({.rank = 0, .size = 2}); }).code, ErrorCode::kUsage)
      << "no address of the store";
}

// Six ranks form a mesh of 3 x 2. They run operations along each axis of the mesh and among all
// ranks, with small and large data, so that both algorithms (direct exchange and ring) run.
TEST(Groups, WorkAlongEachAxisOfAMesh) {
  const RankMesh mesh{.size = 6, .tensor_size = 2};
  run_ranks(mesh.size, [&](Communicator& ranks) {
    const int rank = ranks.rank();
    for (const MeshAxis axis : {MeshAxis::kTensor, MeshAxis::kData}) {
      const std::vector<int> members = mesh.group_of(rank, axis);
      const std::unique_ptr<Communicator> group = ranks.group(members);
      ASSERT_EQ(group->size(), std::ssize(members));
      EXPECT_EQ(members[static_cast<size_t>(group->rank())], rank);
      for (const int64_t count : {int64_t{1}, int64_t{1000}, int64_t{200'000}}) {
        Bytes bytes = make_elements(DType::kF32, count, rank, &exact_element);
        group->all_reduce({bytes.data(), DType::kF32}, count);
        for (int64_t i = 0; i < count; i += 97) {
          double sum = 0;
          for (const int member : members) sum += exact_element(member, i);
          ASSERT_EQ((View{bytes.data(), DType::kF32}.load(i)), sum);
        }
        Bytes all = make_elements(DType::kF32, count, rank, &exact_element);
        ranks.all_reduce({all.data(), DType::kF32}, count);
      }
      std::vector<int> gathered(members.size());
      group->all_gather(std::as_bytes(std::span(&rank, 1)), std::as_writable_bytes(std::span(gathered)));
      EXPECT_EQ(gathered, members);
      int first = rank;
      group->broadcast(std::as_writable_bytes(std::span(&first, 1)), 0);
      EXPECT_EQ(first, members.front());
      group->barrier();
    }
    const std::unique_ptr<Communicator> alone = ranks.group({rank});
    EXPECT_EQ(alone->size(), 1);
  });
}

}  // namespace
}  // namespace plimsoll
