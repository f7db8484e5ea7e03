#include "graph/ir/graph_text.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cstdlib>

namespace plimsoll {
namespace {

std::string attribute_text(const AttributeValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* word = std::get_if<std::string>(&value)) return "\"" + *word + "\"";
  std::string text = fmt::format("{}", std::get<double>(value));
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

// Returns " !divided=4" for a value of which each of four ranks has a slice, and " !divided=4/1" if the slices consist of blocks of one
// element.
std::string division_text(const Value& value) {
  if (!value.divided) return "";
  std::string text = fmt::format(" !divided={}", value.divided->ranks);
  if (value.divided->block != RankSlices::kBlock) text += fmt::format("/{}", value.divided->block);
  return text;
}

// Returns " !host" or " !disk" for a value that is not in the device's memory.
std::string space_text(const Value& value) {
  return value.space == Space::kDevice ? "" : fmt::format(" !{}", space_name(value.space));
}

// Returns for example " !split=2/8+8/8x2". In this example 2 ranks divide a value of shape [8,2], which consists of two parts of 8
// elements, and each rank has half of each part.
std::string split_text(const Value& value) {
  if (!value.split) return "";
  std::vector<int64_t> sizes;
  for (const Dim& dim : value.split->whole.dims()) sizes.push_back(dim.offset);
  return fmt::format(" !split={}/{}/{}", value.split->ranks, fmt::join(value.split->parts, "+"),
                     fmt::join(sizes, "x"));
}

std::string op_text(const Graph& graph, const Op& op) {
  std::string line = "  ";
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const Value& value = graph.value(op.outputs[i]);
    if (i > 0) line += ", ";
    line += fmt::format("%{}: {}", value.name, format_type(value.type));
    if (value.version_of != kNoValue) line += " into %" + graph.value(value.version_of).name;
    if (value.storage == Storage::kOutput) line += " !output";
    if (value.is_parameter_gradient) line += " !gradient";
    line += space_text(value) + division_text(value) + split_text(value);
  }
  line += fmt::format(" = {}(", op.def->name());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (i > 0) line += ", ";
    line += op.inputs[i] == kNoValue ? std::string("_") : "%" + graph.value(op.inputs[i]).name;
  }
  line += ")";
  if (!op.attributes.items().empty()) {
    line += " {";
    bool first = true;
    for (const auto& [name, value] : op.attributes.items()) {
      line += (first ? "" : ", ") + name + "=" + attribute_text(value);
      first = false;
    }
    line += "}";
  }
  return line + "\n";
}

// Parses one line of text from left to right.
class Line {
 public:
  Line(std::string_view text, int number) : text_(text), number_(number) {}

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool done() {
    skip_spaces();
    return at_ >= text_.size();
  }
  bool take(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(fmt::format("'{}' expected", token));
  }
  std::string_view until(std::string_view stops) {
    skip_spaces();
    const size_t end = text_.find_first_of(stops, at_);
    const std::string_view word = text_.substr(at_, end == std::string_view::npos ? end : end - at_);
    at_ += word.size();
    return word;
  }
  std::string_view rest() const { return text_.substr(at_); }
  [[noreturn]] void fail(const std::string& what) const {
    throw_error(ErrorCode::kUsage, "graph text, line {}: {}; the rest of the line is '{}'", number_, what,
                rest());
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  int number_;
};

int64_t parse_size_of_division(Line& line) {
  const std::string_view word = line.until(" ,=/+x");
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < 1)
    line.fail("cannot read how many ranks divide the value: a positive integer is expected");
  return number;
}

std::optional<RankSlices> parse_division(Line& line) {
  if (!line.take("!divided=")) return std::nullopt;
  RankSlices slices{.ranks = parse_size_of_division(line)};
  if (line.take("/")) slices.block = parse_size_of_division(line);
  return slices;
}

// Parses the text that split_text() returns.
std::optional<TensorSplit> parse_split(Line& line) {
  if (!line.take("!split=")) return std::nullopt;
  TensorSplit split{.ranks = parse_size_of_division(line)};
  line.expect("/");
  do {
    split.parts.push_back(parse_size_of_division(line));
  } while (line.take("+"));
  line.expect("/");
  std::vector<Dim> sizes;
  do {
    sizes.emplace_back(parse_size_of_division(line));
  } while (line.take("x"));
  split.whole = Shape(std::span<const Dim>(sizes));
  return split;
}

ValueType parse_type(Line& line) {
  const std::string_view dtype_word = line.until("[");
  const auto dtype = parse_dtype(dtype_word);
  if (!dtype) line.fail(fmt::format("unknown element type '{}'", dtype_word));
  line.expect("[");
  std::vector<Dim> dims;
  while (!line.take("]")) {
    const auto dim = parse_dim(line.until(",]"));
    if (!dim) line.fail("cannot read a dimension of the shape");
    dims.push_back(*dim);
    line.take(",");
  }
  return {*dtype, Shape(std::span<const Dim>(dims))};
}

AttributeValue parse_attribute(Line& line) {
  if (line.take("\"")) {
    std::string word(line.until("\""));
    line.expect("\"");
    return word;
  }
  const std::string text(line.until(",}"));
  if (text.find_first_of(".en") != std::string::npos) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (end != text.c_str() + text.size())
      line.fail("an attribute must be a number, but cannot be read as one");
    return number;
  }
  int64_t integer = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), integer);
  if (error != std::errc() || end != text.data() + text.size())
    line.fail("an attribute must be a number, but cannot be read as one");
  return integer;
}

struct ParsedOutput {
  std::string name;
  ValueType type;
  std::string into;
  bool is_output = false;
  bool is_gradient = false;
  Space space = Space::kDevice;
  std::optional<RankSlices> divided = {};
  std::optional<TensorSplit> split = {};
};

Space parse_space(Line& line) {
  for (const Space space : {Space::kHost, Space::kDisk}) {
    if (line.take(fmt::format("!{}", space_name(space)))) return space;
  }
  return Space::kDevice;
}

ParsedOutput parse_output(Line& line) {
  ParsedOutput output;
  line.expect("%");
  output.name = line.until(":");
  line.expect(":");
  output.type = parse_type(line);
  if (line.take("into %")) output.into = line.until(" ,=");
  if (line.take("!output")) output.is_output = true;
  if (line.take("!gradient")) output.is_gradient = true;
  output.space = parse_space(line);
  output.divided = parse_division(line);
  output.split = parse_split(line);
  return output;
}

void parse_op(Graph& graph, Line& line, OpLookup lookup) {
  std::vector<ParsedOutput> outputs;
  while (!line.take("=")) {
    outputs.push_back(parse_output(line));
    line.take(",");
  }
  const std::string_view op_name = line.until("(");
  const OpDef* def = lookup(op_name);
  if (def == nullptr) line.fail(fmt::format("unknown op '{}'", op_name));
  line.expect("(");
  ValueIds inputs;
  while (!line.take(")")) {
    if (line.take("_")) {
      inputs.push_back(kNoValue);
    } else {
      line.expect("%");
      const std::string_view name = line.until(",)");
      const ValueId id = graph.find(name);
      if (id == kNoValue) line.fail(fmt::format("unknown value '%{}'", name));
      inputs.push_back(id);
    }
    line.take(",");
  }
  Attributes attributes;
  if (line.take("{")) {
    while (!line.take("}")) {
      const std::string name(line.until("="));
      line.expect("=");
      attributes.set(name, parse_attribute(line));
      line.take(",");
    }
  }
  std::vector<std::string> names;
  names.reserve(outputs.size());
  for (const ParsedOutput& output : outputs) names.push_back(output.name);
  const OpId id = graph.add_op(*def, std::move(inputs), std::move(attributes), names);
  const ValueIds produced = graph.op(id).outputs;
  if (produced.size() != outputs.size()) {
    line.fail(fmt::format("the text lists {} outputs, but the op '{}' has {}", outputs.size(), op_name,
                          produced.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value& value = graph.value(produced[i]);
    if (!(value.type == outputs[i].type)) {
      line.fail(fmt::format("the text gives '%{}' the type {}, but the op '{}' infers {}", value.name,
                            format_type(outputs[i].type), op_name, format_type(value.type)));
    }
    if (!outputs[i].into.empty()) {
      const ValueId older = graph.find(outputs[i].into);
      if (older == kNoValue) line.fail(fmt::format("unknown value '%{}'", outputs[i].into));
      value.version_of = older;
      value.storage = graph.value(older).storage;
      value.space = graph.value(older).space;
    }
    if (value.space != outputs[i].space) {
      line.fail(fmt::format(
          "the text places '%{}' in the memory space '{}', but it is in '{}' according to the op '{}'",
          value.name, space_name(outputs[i].space), space_name(value.space), op_name));
    }
    if (outputs[i].is_output) value.storage = Storage::kOutput;
    value.is_parameter_gradient = outputs[i].is_gradient;
    value.divided = outputs[i].divided;
    value.split = outputs[i].split;
  }
}

bool parse_segment(Graph& graph, Line& line) {
  for (Segment segment : {Segment::kForward, Segment::kBackward, Segment::kOptimizer}) {
    if (!line.take(std::string(segment_name(segment)) + " @")) continue;
    graph.set_segment(segment);
    graph.set_module(line.until(" "));
    return true;
  }
  return false;
}

bool parse_declaration(Graph& graph, Line& line) {
  for (Storage storage :
       {Storage::kWeight, Storage::kOptimizerState, Storage::kGradient, Storage::kCache, Storage::kMessage,
        Storage::kInput, Storage::kOutput, Storage::kTransient, Storage::kDeferred}) {
    if (!line.take(std::string(storage_name(storage)) + " %")) continue;
    const std::string name(line.until(":"));
    line.expect(":");
    const ValueId id = graph.add_value(name, parse_type(line), storage);
    graph.value(id).space = parse_space(line);
    graph.value(id).divided = parse_division(line);
    graph.value(id).split = parse_split(line);
    return true;
  }
  return false;
}

}  // namespace

std::string print_graph(const Graph& graph) {
  std::string text = "graph " + graph.name() + " {\n";
  ModuleId module{0};
  for (const Value& value : graph.values()) {
    if (value.producer != kNoOp || value.version_of != kNoValue) continue;
    text += fmt::format("  {} %{}: {}{}{}{}\n", storage_name(value.storage), value.name,
                        format_type(value.type), space_text(value), division_text(value), split_text(value));
  }
  Segment segment = Segment::kForward;
  bool first = true;
  for (const Op& op : graph.ops()) {
    if (first || op.segment != segment || op.module != module) {
      text += fmt::format("  {} @{}\n", segment_name(op.segment), graph.module_name(op.module));
      segment = op.segment;
      module = op.module;
      first = false;
    }
    text += op_text(graph, op);
  }
  return text + "}\n";
}

Graph parse_graph(std::string_view text, OpLookup lookup) {
  Graph graph("");
  int number = 0;
  bool open = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    Line line(text.substr(0, end), ++number);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.done() || line.take("//")) continue;
    if (!open) {
      line.expect("graph");
      graph = Graph(std::string(line.until(" {")));
      line.expect("{");
      open = true;
      continue;
    }
    if (line.take("}")) return graph;
    if (parse_segment(graph, line) || parse_declaration(graph, line)) continue;
    parse_op(graph, line, lookup);
  }
  throw_error(ErrorCode::kUsage, "graph text, line {}: the closing brace is missing", number);
}

}  // namespace plimsoll
