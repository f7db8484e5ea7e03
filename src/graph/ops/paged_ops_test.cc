// Tests the types, costs and error messages of append_kv and paged_attention.
#include <gtest/gtest.h>

#include <string>

#include "graph/ir/graph_text.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

// A layer of a decoder with 4 heads of queries and 2 heads of keys and values, each of width 8. The cache has 10 pages of 16 tokens, and a
// sequence has at most 3 pages.
std::string layer(const std::string& cache = "bf16[10,2,16,16]", const std::string& table = "i32[B,3]",
                  const std::string& attributes = "heads=4, kv_heads=2") {
  return "graph decode {\n"
         "  input %qkv: bf16[T,64]\n"
         "  input %cu_seqlens: i32[B+1]\n"
         "  input %page_table: " +
         table +
         "\n"
         "  input %lengths: i32[B]\n"
         "  input %copy_from: i32[B]\n"
         "  cache %kv: " +
         cache +
         "\n"
         "  forward @layer.0\n"
         "  %kv.1: " +
         cache + " into %kv = append_kv(%qkv, %cu_seqlens, %page_table, %lengths, %copy_from, %kv) {" +
         attributes +
         "}\n"
         "  %o: bf16[T,32] !output = paged_attention(%qkv, %cu_seqlens, %page_table, %lengths, %kv.1) {" +
         attributes +
         ", scale=0.25}\n"
         "}\n";
}

TEST(PagedOps, TheNewCacheIsAVersionOfTheOldOne) {
  const Graph graph = parse_graph(layer(), find_op);
  const Value& cache = graph.value(graph.find("kv.1"));
  EXPECT_EQ(cache.storage, Storage::kCache);
  EXPECT_EQ(cache.version_of, graph.find("kv"));
  EXPECT_TRUE(is_persistent(cache.storage));
  EXPECT_EQ(print_graph(graph), layer());
}

TEST(PagedOps, CostsAreBoundedByThePagesOfTheSequencesAndOfTheCache) {
  const Graph graph = parse_graph(layer(), find_op);
  const auto cost = [&](size_t op, int64_t tokens, int64_t sequences) {
    return schema_of(graph.ops()[op])
        .cost({graph, graph.ops()[op]}, {.tokens = tokens, .sequences = sequences, .longest = 1});
  };
  // append_kv reads and writes, for 5 tokens, a key and a value of 2 heads with 8 elements in bf16.
  EXPECT_EQ(cost(0, 5, 5).bytes, 5 * 2 * 16 * 2 * 2.0);
  EXPECT_EQ(cost(0, 5, 5).flops, 0.0);
  // A sequence reads at most 48 tokens. Five sequences would read 240, but the cache only has room for 160.
  EXPECT_EQ(cost(1, 1, 1).bytes, 2 * 32 * 2.0 + 48 * 2 * 16 * 2.0);
  EXPECT_EQ(cost(1, 5, 5).bytes, 5 * 2 * 32 * 2.0 + 160 * 2 * 16 * 2.0);
  EXPECT_EQ(cost(1, 1, 1).flops, 4 * 32 * 48.0);
}

TEST(PagedOps, OperandsThatDoNotBelongTogetherAreRefused) {
  for (const std::string& text :
       {layer("f32[10,2,16,16]"), layer("bf16[10,2,16,24]"), layer("bf16[10,1,16,16]"),
        layer("bf16[10,2,16,16]", "i32[T,3]"), layer("bf16[10,2,16,16]", "f32[B,3]"),
        layer("bf16[10,2,16,16]", "i32[B,3]", "heads=4, kv_heads=3"),
        layer("bf16[10,2,16,16]", "i32[B,3]", "heads=5")}) {
    EXPECT_THROW(parse_graph(text, find_op), Error) << text;
  }
}

}  // namespace
}  // namespace plimsoll
