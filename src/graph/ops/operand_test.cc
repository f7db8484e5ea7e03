// Tests that the operand tables of all ops are consistent, and tests the checks that derive from the tables.
#include "graph/ops/operand.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/ir/graph.h"
#include "graph/ops/ops.h"

namespace plimsoll {
namespace {

template <typename Operand>
void expect_unique_rows(std::span<const Operand> table, std::string_view op) {
  std::set<std::string_view> names;
  int last_repeated = -1;
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(table[i].index, static_cast<int>(i)) << op << ": the row of '" << table[i].name << "'";
    EXPECT_FALSE(table[i].name.empty()) << op << ": row " << i;
    EXPECT_TRUE(names.insert(table[i].name).second)
        << op << ": two rows are called '" << table[i].name << "'";
    if (table[i].presence != Presence::kRepeated) continue;
    const int row = static_cast<int>(i);
    EXPECT_TRUE(last_repeated < 0 || last_repeated + 1 == row) << op << ": repeated rows with a gap";
    last_repeated = row;
  }
}

TEST(OperandTables, RowsHaveTheirIndexAndTheirOwnName) {
  ASSERT_FALSE(all_ops().empty());
  for (const OpSchema* op : all_ops()) {
    // Every op has inputs, except receive, whose value comes from another rank.
    EXPECT_EQ(op->inputs().empty(), op == &receive_op()) << op->name();
    EXPECT_FALSE(op->outputs().empty()) << op->name();
    expect_unique_rows(op->inputs(), op->name());
    expect_unique_rows(op->outputs(), op->name());
  }
}

TEST(OperandTables, OptionalOutputsAreDeclaredAsSuch) {
  for (const OpSchema* op : all_ops()) {
    for (const OutputOperand& output : op->outputs())
      EXPECT_NE(output.presence, Presence::kOptional) << op->name() << ": an output has no empty place";
  }
}

// The executor finds the flag and the random state by their roles. Therefore each role occurs at most once, and an op
// has a flag if and only if one of its outputs accumulates.
TEST(OperandTables, RolesAreUnambiguous) {
  for (const OpSchema* op : all_ops()) {
    std::multiset<InputRole> roles;
    std::set<int> outputs;
    for (const InputOperand& input : op->inputs()) {
      roles.insert(input.role);
      const bool takes_bytes = input.role == InputRole::kInto || input.role == InputRole::kReplaced;
      EXPECT_EQ(takes_bytes, input.output != kNoOutput) << op->name() << ": " << input.name;
      if (!takes_bytes) continue;
      EXPECT_LT(input.output, static_cast<int>(op->outputs().size())) << op->name() << ": " << input.name;
      EXPECT_TRUE(outputs.insert(input.output).second)
          << op->name() << ": two inputs give their bytes to output " << input.output;
    }
    for (const InputRole role : {InputRole::kAccumulateFlag, InputRole::kRandomState,
                                 InputRole::kSequenceOffsets, InputRole::kNumSequences})
      EXPECT_LE(roles.count(role), 1u) << op->name();
    EXPECT_EQ(roles.count(InputRole::kAccumulateFlag) == 1, roles.count(InputRole::kInto) > 0) << op->name();
  }
}

// Inputs after the first repeated one have no fixed positions. Every input with a role other than kData must therefore come before it.
TEST(OperandTables, RolesHaveFixedPositions) {
  for (const OpSchema* op : all_ops()) {
    bool repeated = false;
    for (const InputOperand& input : op->inputs()) {
      EXPECT_FALSE(repeated && input.role != InputRole::kData) << op->name() << ": " << input.name;
      repeated = repeated || input.presence == Presence::kRepeated;
    }
  }
}

std::string message_of(const OpSchema& op, std::vector<ValueId> inputs, Graph graph,
                       Attributes attributes = {}) {
  try {
    graph.add_op(op, std::move(inputs), std::move(attributes));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(OperandTables, AWrongNumberOfInputsIsRefusedWithTheSignature) {
  Graph graph;
  const ValueId x = graph.add_value("x", {DType::kF32, Shape{2, 3}}, Storage::kInput);
  EXPECT_NE(message_of(matmul_op(), {x, x}, graph)
                .find("matmul(a = x f32[2,3], b = x f32[2,3]) are invalid; required: matmul(a, b, bias?, "
                      "into?, flag?)"),
            std::string::npos);
  EXPECT_NE(message_of(sort_ids_op(), {x}, graph).find("required: sort_ids(cu_seqlens, ids...)"),
            std::string::npos);
}

TEST(OperandTables, AnEmptyPlaceOfARequiredInputIsRefusedByName) {
  Graph graph;
  const ValueId x = graph.add_value("x", {DType::kF32, Shape{2, 3}}, Storage::kInput);
  EXPECT_NE(
      message_of(add_op(), {x, kNoValue}, graph).find("add(a = x f32[2,3], b = _) are invalid; required: b"),
      std::string::npos);
}

TEST(OperandTables, AccumulatingWithoutAFlagIsRefused) {
  Graph graph;
  const ValueId x = graph.add_value("x", {DType::kF32, Shape{2, 2}}, Storage::kInput);
  const ValueId into = graph.add_value("into", {DType::kF32, Shape{2, 2}}, Storage::kGradient);
  const Attributes attributes{{"ta", int64_t{0}}, {"tb", int64_t{0}}};
  EXPECT_NE(message_of(matmul_op(), {x, x, kNoValue, into, kNoValue}, graph, attributes)
                .find("required: an accumulation flag, because an 'into' operand is given"),
            std::string::npos);
}

TEST(OpWork, DefaultsFollowTheGroup) {
  for (const OpSchema* op : all_ops()) {
    const bool is_contraction = op->group() == OpGroup::kContraction;
    const OpWork work = op->work();
    const bool is_product =
        work == OpWork::kProduct || work == OpWork::kAttention || work == OpWork::kAttentionBackward;
    EXPECT_EQ(is_contraction, is_product) << op->name();
    const bool reads_rate = !op->inputs().empty() && op->inputs().front().name == "learning_rate";
    EXPECT_EQ(op->is_update(), reads_rate) << op->name();
  }
  EXPECT_TRUE(update_op(OptimizerKind::kAdamW8Bit).is_update());
  EXPECT_TRUE(copy_op().is_copy());
  EXPECT_FALSE(cast_op().is_copy());
}

// With dropout and without a residual, the gradient op of a norm has no output d_sum, so d_x takes the first position.
TEST(OperandTables, ConditionalOutputsLeaveNoGap) {
  Graph graph;
  const ValueId d_y = graph.add_value("d_y", {DType::kF32, Shape{kDimT, 4}}, Storage::kInput);
  const ValueId rstd = graph.add_value("rstd", {DType::kF32, Shape{kDimT}}, Storage::kInput);
  const ValueId gain = graph.add_value("gain", {DType::kF32, Shape{4}}, Storage::kWeight);
  const ValueId rng = graph.add_value("rng", {DType::kI64, Shape{2}}, Storage::kInput);
  const ValueId into = graph.add_value("into", {DType::kF32, Shape{4}}, Storage::kGradient);
  const ValueId flag = graph.add_value("flag", {DType::kI32, Shape{1}}, Storage::kInput);
  const OpSchema& schema = bias_dropout_residual_norm_bwd_op();
  const Attributes attributes{
      {"p", 0.1}, {"site", int64_t{1}}, {"bias", int64_t{1}}, {"residual", int64_t{0}}};
  const OpId id = graph.add_op(
      schema, {d_y, kNoValue, d_y, rstd, gain, rng, kNoValue, kNoValue, into, flag, kNoValue}, attributes);
  const OpView op{graph, graph.op(id)};
  ASSERT_EQ(op.num_outputs(), 4);
  const std::vector<std::string> names{"d_x", "d_gain", "d_beta", "d_bias"};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(schema.output_name(op, i), names[static_cast<size_t>(i)]);
  EXPECT_EQ(schema.writes_into(op, 3), BiasDropoutResidualNormBwdOp::kIntoBias);
  EXPECT_EQ(schema.writes_into(op, 2), -1);
  EXPECT_EQ(schema.into_input(op, 2), BiasDropoutResidualNormBwdOp::kIntoBeta);
}

// Without beta, the gradient op of a norm has no output d_beta, so d_bias follows d_gain.
TEST(OperandTables, AnAbsentBetaLeavesNoGap) {
  Graph graph;
  const ValueId d_y = graph.add_value("d_y", {DType::kF32, Shape{kDimT, 4}}, Storage::kInput);
  const ValueId rstd = graph.add_value("rstd", {DType::kF32, Shape{kDimT}}, Storage::kInput);
  const ValueId gain = graph.add_value("gain", {DType::kF32, Shape{4}}, Storage::kWeight);
  const OpSchema& schema = bias_dropout_residual_norm_bwd_op();
  const Attributes attributes{
      {"p", 0.0}, {"site", int64_t{1}}, {"bias", int64_t{1}}, {"residual", int64_t{0}}, {"beta", int64_t{0}}};
  const OpId id = graph.add_op(
      schema, {d_y, kNoValue, d_y, rstd, gain, kNoValue, kNoValue, kNoValue, kNoValue, kNoValue, kNoValue},
      attributes);
  const OpView op{graph, graph.op(id)};
  ASSERT_EQ(op.num_outputs(), 3);
  const std::vector<std::string> names{"d_sum", "d_gain", "d_bias"};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(schema.output_name(op, i), names[static_cast<size_t>(i)]);
  EXPECT_EQ(schema.into_input(op, 2), BiasDropoutResidualNormBwdOp::kIntoBias);
}

TEST(OperandTables, ViolationsNameTheInput) {
  Graph graph("g");
  const ValueId x = graph.add_value("x", {DType::kF32, Shape{kDimT, 4}}, Storage::kInput);
  const ValueId bias = graph.add_value("bias", {DType::kF32, Shape{4}}, Storage::kWeight);
  const ValueId y = emit(graph, gelu_op(), {x});
  emit(graph, bias_add_op(), {y, bias});
  std::vector<Op> ops(graph.ops().rbegin(), graph.ops().rend());
  graph.replace_ops(std::move(ops));
  EXPECT_EQ(find_violation(graph).value_or("none"),
            "op 0 'bias_add' reads 'gelu' (input 'x') before it is produced");
}

}  // namespace
}  // namespace plimsoll
