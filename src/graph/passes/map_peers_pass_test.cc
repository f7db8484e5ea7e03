#include <gtest/gtest.h>

#include "graph/passes/testing/pass_text.h"

namespace plimsoll {
namespace {

constexpr const char* kBothAxes =
    "graph g {\n"
    "  input %x: f32[B,4]\n"
    "  backward @m\n"
    "  %y: f32[B,4] into %x = all_reduce(%x) {axis=\"tensor\", ranks=2}\n"
    "  %z: f32[B,4] into %y !output = all_reduce(%y) {ranks=4}\n"
    "}\n";

TEST(MapPeers, MarksTheOperationsOfOneAxis) {
  const std::string of_data = print_graph(testing::after_pass(kBothAxes, map_peers_pass(MeshAxis::kData)));
  EXPECT_NE(of_data.find("all_reduce(%x) {axis=\"tensor\", ranks=2}"), std::string::npos) << of_data;
  EXPECT_NE(of_data.find("all_reduce(%y) {peers=1, ranks=4}"), std::string::npos) << of_data;
  const std::string of_tensor =
      print_graph(testing::after_pass(kBothAxes, map_peers_pass(MeshAxis::kTensor)));
  EXPECT_NE(of_tensor.find("all_reduce(%x) {axis=\"tensor\", peers=1, ranks=2}"), std::string::npos)
      << of_tensor;
  EXPECT_NE(of_tensor.find("all_reduce(%y) {ranks=4}"), std::string::npos) << of_tensor;
}

}  // namespace
}  // namespace plimsoll
