// Tests the pass that computes matrix products of linear layers from fp8 codes: which layers it chooses, and that each value is quantized
// once for all its readers.
#include <gtest/gtest.h>

#include "graph/autodiff/autodiff.h"
#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

using testing::graph_of;
using testing::replaced;

// A model of four linear layers. The products of the first and the last one stay in 16 bits.
const std::string kLayers = R"(graph g {
  input %cu_seqlens: i32[B+1]
  input %x: bf16[T,16]
  weight %w0: bf16[32,16]
  weight %w1: bf16[48,32]
  weight %w2: bf16[32,48]
  weight %w3: bf16[16,32]
  forward @first
  %a: bf16[T,32] = matmul(%x, %w0, _, _, _) {ta=0, tb=1}
  forward @up
  %b: bf16[T,48] = matmul(%a, %w1, _, _, _) {ta=0, tb=1}
  forward @down
  %c: bf16[T,32] = matmul(%b, %w2, _, _, _) {ta=0, tb=1}
  forward @last
  %d: bf16[T,16] !output = matmul(%c, %w3, _, _, _) {ta=0, tb=1}
}
)";

// Parses a graph and appends a backward pass that computes the gradients of the weights with these names. It starts from the gradient of
// the value %d, which is the input %d_d.
Graph differentiated(const std::string& text, const std::vector<std::string>& weights,
                     bool accumulate = false) {
  Graph graph = graph_of(text);
  for (Value& value : graph.values()) {
    if (value.name == "cu_seqlens") value.input.content = InputContent::kSequenceStarts;
  }
  std::vector<ValueId> wanted;
  for (const std::string& weight : weights) wanted.push_back(graph.find(weight));
  const ValueId seed = graph.add_value("d_d", graph.value(graph.find("d")).type, Storage::kInput);
  for (const ValueId gradient : add_backward(graph, graph.find("d"), wanted, seed))
    graph.value(gradient).storage = accumulate ? Storage::kTransient : Storage::kOutput;
  if (accumulate) {
    graph.add_value("accumulate", {DType::kI32, Shape{1}}, Storage::kInput);
    accumulate_pass().run(graph);
  }
  return graph;
}

std::string after(Graph graph, Fp8Choice choice = {}) {
  fp8_products_pass(std::move(choice)).run(graph);
  verify(graph, "after the pass");
  return print_graph(graph);
}

int count(const std::string& text, std::string_view part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

const std::vector<std::string> kAll{"w0", "w1", "w2", "w3"};

// Each value is quantized once, with and without transposition, before the first product that reads it: activations for the forward product
// and the gradient of the weight, gradients for both backward products, weights for the forward and the backward pass.
TEST(Fp8Products, LayersBetweenTheFirstAndTheLastMultiplyCodes) {
  EXPECT_EQ(after(differentiated(kLayers, kAll)), R"(graph g {
  input %cu_seqlens: i32[B+1]
  input %x: bf16[T,16]
  weight %w0: bf16[32,16]
  weight %w1: bf16[48,32]
  weight %w2: bf16[32,48]
  weight %w3: bf16[16,32]
  input %d_d: bf16[T,16]
  forward @first
  %a: bf16[T,32] = matmul(%x, %w0, _, _, _) {ta=0, tb=1}
  forward @up
  %a.e4m3: e4m3[T,32], %a.e4m3.transposed: e4m3[32,T], %a.e4m3.scale: f32[2] = quantize_fp8(%a, _, _, _, _, _, %cu_seqlens) {format="e4m3"}
  %w1.e4m3: e4m3[48,32], %w1.e4m3.transposed: e4m3[32,48], %w1.e4m3.scale: f32[2] = quantize_fp8(%w1, _, _, _, _, _, _) {format="e4m3"}
  %b: bf16[T,48] = scaled_matmul(%a.e4m3, %w1.e4m3, _, _, _, %a.e4m3.scale, %w1.e4m3.scale) {dtype="bf16"}
  forward @down
  %b.e4m3: e4m3[T,48], %b.e4m3.transposed: e4m3[48,T], %b.e4m3.scale: f32[2] = quantize_fp8(%b, _, _, _, _, _, %cu_seqlens) {format="e4m3"}
  %w2.e4m3: e4m3[32,48], %w2.e4m3.transposed: e4m3[48,32], %w2.e4m3.scale: f32[2] = quantize_fp8(%w2, _, _, _, _, _, _) {format="e4m3"}
  %c: bf16[T,32] = scaled_matmul(%b.e4m3, %w2.e4m3, _, _, _, %b.e4m3.scale, %w2.e4m3.scale) {dtype="bf16"}
  forward @last
  %d: bf16[T,16] !output = matmul(%c, %w3, _, _, _) {ta=0, tb=1}
  backward @last
  %d_w3: bf16[16,32] !output !gradient = matmul(%d_d, %c, _, _, _) {ta=1, tb=0}
  %d_c: bf16[T,32] = matmul(%d_d, %w3, _, _, _) {ta=0, tb=0}
  backward @down
  %d_c.e5m2: e5m2[T,32], %d_c.e5m2.transposed: e5m2[32,T], %d_c.e5m2.scale: f32[2] = quantize_fp8(%d_c, _, _, _, _, _, %cu_seqlens) {format="e5m2"}
  %d_w2: bf16[32,48] !output !gradient = scaled_matmul(%d_c.e5m2.transposed, %b.e4m3.transposed, _, _, _, %d_c.e5m2.scale, %b.e4m3.scale) {dtype="bf16"}
  %d_b: bf16[T,48] = scaled_matmul(%d_c.e5m2, %w2.e4m3.transposed, _, _, _, %d_c.e5m2.scale, %w2.e4m3.scale) {dtype="bf16"}
  backward @up
  %d_b.e5m2: e5m2[T,48], %d_b.e5m2.transposed: e5m2[48,T], %d_b.e5m2.scale: f32[2] = quantize_fp8(%d_b, _, _, _, _, _, %cu_seqlens) {format="e5m2"}
  %d_w1: bf16[48,32] !output !gradient = scaled_matmul(%d_b.e5m2.transposed, %a.e4m3.transposed, _, _, _, %d_b.e5m2.scale, %a.e4m3.scale) {dtype="bf16"}
  %d_a: bf16[T,32] = scaled_matmul(%d_b.e5m2, %w1.e4m3.transposed, _, _, _, %d_b.e5m2.scale, %w1.e4m3.scale) {dtype="bf16"}
  backward @first
  %d_w0: bf16[32,16] !output !gradient = matmul(%d_a, %x, _, _, _) {ta=1, tb=0}
}
)");
}

// The fp8 codes of tail rows (rows after the last token) are zero. A product that sums over tokens may therefore include these rows.
TEST(Fp8Products, ProductsOverTokensReadZerosInTailRows) {
  Graph graph = differentiated(kLayers, {"w1", "w2"});
  fp8_products_pass({}).run(graph);
  const std::vector<Tail> tails = find_tails(graph);
  EXPECT_EQ(tails[index_of(graph.find("b.e4m3.transposed"))], Tail::kZero);
  EXPECT_EQ(tails[index_of(graph.find("w1.e4m3"))], Tail::kNone);
}

// If micro-batches are accumulated, weights are quantized only in the first micro-batch of a step, and gradients accumulate in their own
// type.
TEST(Fp8Products, CodesOfWeightsPersistWhereMicroBatchesAccumulate) {
  const std::string text = after(differentiated(kLayers, kAll, true));
  EXPECT_EQ(count(text,
                  "  weight %w1.e4m3: e4m3[48,32]\n"
                  "  weight %w1.e4m3.transposed: e4m3[32,48]\n"
                  "  weight %w1.e4m3.scale: f32[2]\n"),
            1)
      << text;
  EXPECT_EQ(count(text,
                  "into %w1.e4m3.scale = quantize_fp8(%w1, _, %w1.e4m3, %w1.e4m3.transposed, "
                  "%w1.e4m3.scale, %accumulate, _)"),
            1)
      << text;
  EXPECT_EQ(
      count(text, "%b.e4m3.transposed, _, %gradient/d_w2, %accumulate, %d_c.e5m2.scale, %b.e4m3.scale)"), 1)
      << text;
  const std::string at_use = after(differentiated(kLayers, kAll, true), {.keeps_weights = false});
  EXPECT_EQ(count(at_use, "weight %w1.e4m3"), 0) << at_use;
  EXPECT_EQ(count(at_use, "= quantize_fp8(%w1, _, _, _, _, _, _)"), 1) << at_use;
}

// If a layer computes no gradient of its input, no product reads its transposed weight, so the transposed codes are not kept.
TEST(Fp8Products, TransposedCodesOfWeightsThatNoBackwardProductReadsAreNotKept) {
  const std::string text = after(differentiated(kLayers, {"w1", "w2", "w3"}, true));
  EXPECT_EQ(count(text, "weight %w1.e4m3"), 2) << text;
  EXPECT_EQ(count(text, "weight %w2.e4m3"), 3) << text;
}

// A frozen layer has no gradient of its weight, so that nothing reads the transposed codes of its input.
TEST(Fp8Products, FrozenLayersMultiplyCodesToo) {
  const std::string text = after(differentiated(kLayers, {"w0", "w3"}));
  EXPECT_EQ(count(text, "scaled_matmul("), 4) << text;
  EXPECT_EQ(count(text, "%b.e4m3.transposed"), 1) << text;
}

// Two layers that read one value share its codes. A gradient that is the gradient of both layers' results is also quantized only once.
TEST(Fp8Products, LayersWithTheSameInputShareItsCodes) {
  std::string text = replaced(kLayers, "  weight %w2", "  weight %v1: bf16[48,32]\n  weight %w2");
  text = replaced(text, "  forward @down",
                  "  %v: bf16[T,48] = matmul(%a, %v1, _, _, _) {ta=0, tb=1}\n"
                  "  %s: bf16[T,48] = add(%b, %v)\n  forward @down");
  text = replaced(text, "matmul(%b, %w2", "matmul(%s, %w2");
  const std::string changed = after(differentiated(text, {"w0", "w1", "v1", "w2", "w3"}));
  EXPECT_EQ(count(changed, "= quantize_fp8(%a,"), 1) << changed;
  EXPECT_EQ(count(changed, "= quantize_fp8(%d_s,"), 1) << changed;
  EXPECT_EQ(count(changed, "scaled_matmul("), 9) << changed;
}

// Layers that are too narrow for tensor cores, that work on rows of sequences, or on fp32, stay as they are.
TEST(Fp8Products, OtherLayersStay) {
  const auto products = [](const std::string& text) {
    return count(after(differentiated(text, kAll)), "scaled_matmul(");
  };
  EXPECT_EQ(products(kLayers), 6);
  std::string narrow = kLayers;
  for (const char* width : {"w1: bf16[48,", "%b: bf16[T,48]"})
    narrow = replaced(narrow, width, replaced(width, "48", "40"));
  EXPECT_EQ(products(replaced(narrow, "w2: bf16[32,48]", "w2: bf16[32,40]")), 0);
  std::string sequences = kLayers;
  while (sequences.find("[T,") != std::string::npos) sequences = replaced(sequences, "[T,", "[B,");
  EXPECT_EQ(products(sequences), 0);
  std::string single = kLayers;
  while (single.find("bf16") != std::string::npos) single = replaced(single, "bf16", "f32");
  EXPECT_EQ(products(single), 0);
}

// Adapters are small; they are neither quantized nor count as the first or the last layer. Their gradients, which have the
// same module and the same input as the layer's, stay in 16 bits.
TEST(Fp8Products, AdaptersStay) {
  std::string text = replaced(kLayers, "  weight %w2", "  weight %lora: bf16[16,32]\n  weight %w2");
  text = replaced(text, "  forward @down",
                  "  %r: bf16[T,16] !output = matmul(%a, %lora, _, _, _) {ta=0, tb=1}\n  forward @down");
  Graph graph = differentiated(text, kAll);
  graph.set_segment(Segment::kBackward);
  graph.set_module("up");
  const ValueId d_r = graph.add_value("d_r", graph.value(graph.find("r")).type, Storage::kInput);
  const ValueId d_lora =
      emit_matmul(graph, d_r, MatmulTranspose::kYes, graph.find("a"), MatmulTranspose::kNo, "d_lora");
  graph.value(d_lora).storage = Storage::kOutput;
  const std::string changed = after(std::move(graph), {.adapters = {"lora"}});
  EXPECT_EQ(count(changed, "%r: bf16[T,16] !output = matmul(%a, %lora,"), 1) << changed;
  EXPECT_EQ(count(changed, "%d_lora: bf16[16,32] !output = matmul(%d_r, %a,"), 1) << changed;
  EXPECT_EQ(count(changed, "scaled_matmul("), 6) << changed;
}

// If the backward pass needs the fp8 codes of a value that is kept anyway, it computes them again with the scale of the forward pass,
// instead of keeping the codes.
TEST(Fp8Products, CodesOfKeptValuesAreComputedAgainWithTheirScale) {
  Graph graph = differentiated(kLayers, kAll);
  fp8_products_pass({}).run(graph);
  recompute_pass({.policy = RecomputePolicy::kCheap}).run(graph);
  verify(graph, "after both passes");
  find_tails(graph);
  const std::string text = print_graph(graph);
  EXPECT_EQ(count(text, "= quantize_fp8(%w2, %w2.e4m3.scale, _, _, _, _, _)"), 1) << text;
}

}  // namespace
}  // namespace plimsoll
