// Compares reduce_scatter() and all_gather_parts() with plain sums and copies. Ranks are threads.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/dtype.h"
#include "device/comm/collectives.h"
#include "device/comm/testing/rank_threads.h"

namespace plimsoll {
namespace {

using Bytes = std::vector<std::byte>;

// Returns lists of part sizes for the tests. In a list the sizes are equal or unequal, or the last parts are empty. Some sizes are so large
// that a part is sent in several messages.
std::vector<std::vector<int64_t>> part_sizes(int size) {
  std::vector<std::vector<int64_t>> lists;
  for (const int64_t unit : {int64_t{0}, int64_t{1}, int64_t{257}, int64_t{70'001}, int64_t{400'003}}) {
    std::vector<int64_t> equal, unequal, last_are_empty;
    for (int rank = 0; rank < size; ++rank) {
      equal.push_back(unit);
      unequal.push_back(unit * (rank % 3) + rank);
      last_are_empty.push_back(rank < (size + 1) / 2 ? unit : 0);
    }
    lists.insert(lists.end(), {equal, unequal, last_are_empty});
  }
  return lists;
}

// Returns small integers, so that every order of addition gives the exact sum, also in 16 bits.
double element(int rank, int64_t i) {
  return static_cast<double>((i * 7 + rank * 13) % 17 - 8);
}

class Parts : public ::testing::TestWithParam<int> {};

TEST_P(Parts, EachRankReceivesTheSumsOfItsPart) {
  const int size = GetParam();
  run_ranks(size, [&](Communicator& ranks) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      for (const std::vector<int64_t>& counts : part_sizes(size)) {
        const int64_t count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        Bytes bytes(static_cast<size_t>(count * dtype_bytes(dtype)));
        const View data{bytes.data(), dtype};
        for (int64_t i = 0; i < count; ++i) data.store(i, element(ranks.rank(), i));
        ranks.reduce_scatter(data, counts);
        const int64_t first = std::accumulate(counts.begin(), counts.begin() + ranks.rank(), int64_t{0});
        const int64_t end = first + counts[static_cast<size_t>(ranks.rank())];
        int64_t num_wrong = 0;
        for (int64_t i = first; i < end; ++i) {
          double sum = 0;
          for (int rank = 0; rank < size; ++rank) sum += element(rank, i);
          num_wrong += data.load(i) == sum ? 0 : 1;
        }
        EXPECT_EQ(num_wrong, 0) << count << " elements of type " << dtype_name(dtype) << " on rank "
                                << ranks.rank();
      }
    }
  });
}

TEST_P(Parts, EachRankReceivesAllParts) {
  const int size = GetParam();
  run_ranks(size, [&](Communicator& ranks) {
    for (const std::vector<int64_t>& sizes : part_sizes(size)) {
      const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
      Bytes all(static_cast<size_t>(total)), expected;
      int64_t begin = 0;
      for (int rank = 0; rank < size; ++rank) {
        for (int64_t i = 0; i < sizes[static_cast<size_t>(rank)]; ++i, ++begin) {
          expected.push_back(static_cast<std::byte>(begin % 251 + rank));
          if (rank == ranks.rank()) all[static_cast<size_t>(begin)] = expected.back();
        }
      }
      ranks.all_gather_parts(all.data(), sizes);
      EXPECT_TRUE(all == expected) << total << " bytes on rank " << ranks.rank();
    }
  });
}

TEST_P(Parts, EachPairOfRanksExchangesABlock) {
  const int size = GetParam();
  run_ranks(size, [&](Communicator& ranks) {
    for (const size_t block : {size_t{0}, size_t{1}, size_t{300}, size_t{2'100'001}}) {
      const auto byte = [&](int from, int to, size_t i) {
        return static_cast<std::byte>((i * 7 + static_cast<size_t>(from * 16 + to)) % 251);
      };
      Bytes mine, expected, received(block * static_cast<size_t>(size));
      for (int peer = 0; peer < size; ++peer) {
        for (size_t i = 0; i < block; ++i) {
          mine.push_back(byte(ranks.rank(), peer, i));
          expected.push_back(byte(peer, ranks.rank(), i));
        }
      }
      ranks.all_to_all(mine, received);
      EXPECT_TRUE(received == expected) << block << " bytes on rank " << ranks.rank();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Parts, ::testing::Values(1, 2, 3, 4, 8));

// Checks the order of additions in a ring that collectives.h documents: the sums of part r start with the elements of rank r + 1.
TEST(CommunicatorParts, Fp32IsAddedInTheOrderOfTheRing) {
  constexpr int kSize = 4;
  constexpr int64_t kPart = 20'000;
  static_assert(kSize * kPart * sizeof(float) > kDirectBytes);
  const auto rough = [](int rank, int64_t i) {
    return static_cast<float>(element(rank, i)) * 0.1F * static_cast<float>(1 << (rank * 4));
  };
  run_ranks(kSize, [&](Communicator& ranks) {
    std::vector<float> data;
    for (int64_t i = 0; i < kSize * kPart; ++i) data.push_back(rough(ranks.rank(), i));
    ranks.reduce_scatter({data.data(), DType::kF32}, std::vector<int64_t>(kSize, kPart));
    for (int64_t i = ranks.rank() * kPart; i < (ranks.rank() + 1) * kPart; ++i) {
      float sum = rough((ranks.rank() + 1) % kSize, i);
      for (int k = 2; k <= kSize; ++k) sum += rough((ranks.rank() + k) % kSize, i);
      ASSERT_EQ(data[static_cast<size_t>(i)], sum) << i;
    }
  });
}

}  // namespace
}  // namespace plimsoll
