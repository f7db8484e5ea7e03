#include "graph/passes/pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "graph/passes/testing/pass_text.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr const char* kTwoOps =
    "graph g {\n"
    "  input %x: f32[B,4]\n"
    "  forward @m\n"
    "  %a: f32[B,4] = gelu(%x)\n"
    "  %y: f32[B,4] !output = tanh(%a)\n"
    "}\n";

// A pass with the name of an existing pass that makes the graph invalid by reversing the order of the ops.
Pass breaking_pass() {
  Pass pass = dead_code_pass({});
  pass.run = [](Graph& graph) {
    std::vector<Op> ops = graph.ops();
    std::ranges::reverse(ops);
    graph.replace_ops(std::move(ops));
  };
  return pass;
}

// Runs a pass that breaks the graph, and finishes the program. Returns the message, or "" if there was no error.
std::string message_after_broken_pass(Verification verification, bool dumps) {
  PassOptions options;
  options.verification = verification;
  if (dumps) options.dump = [](std::string_view, const std::string&) {};
  PassManager passes(options);
  Graph graph = testing::graph_of(kTwoOps);
  try {
    passes.run(graph, breaking_pass());
    passes.finish(graph);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    return error.what();
  }
  return {};
}

TEST(PassManager, NamesThePassThatBreaksAGraph) {
  const std::string each = message_after_broken_pass(Verification::kAfterEachPass, false);
  EXPECT_NE(each.find("after pass 'dead_code'"), std::string::npos) << each;
  EXPECT_NE(each.find("before it is produced"), std::string::npos) << each;
  // If passes are dumped, each of them is verified, whatever the options say.
  for (const Verification verification : {Verification::kOnce, Verification::kNever})
    EXPECT_EQ(message_after_broken_pass(verification, true), each);
}

TEST(PassManager, VerifiesAFinishedProgramUnlessItOnlyServesAsAnExample) {
  const std::string once = message_after_broken_pass(Verification::kOnce, false);
  EXPECT_NE(once.find("after the last pass; --dump_passes FOLDER names the pass at fault"), std::string::npos)
      << once;
  EXPECT_EQ(message_after_broken_pass(Verification::kNever, false), "");
}

}  // namespace
}  // namespace plimsoll
