#include "io/data/labels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "io/data/table_reader.h"
#include "io/data/testing/letter_encoder.h"

namespace plimsoll {
namespace {

using Names = std::vector<std::string>;

TextSplit split_of(Table table) {
  const ColumnChoice columns = choose_columns(table);
  return TextSplit(std::move(table), columns);
}

// Returns a CSV file with these labels, the first on line 2.
TextSplit csv_labels(const Names& labels) {
  std::string bytes = "text,label\n";
  for (const std::string& label : labels) {
    bytes += "x,\"" + label + "\"\n";
  }
  return split_of(read_csv(text_file_from_memory("train.csv", bytes)));
}

// Returns a JSONL file in which these texts are the labels, which may be any JSON value. The first label is on line 1.
TextSplit json_labels(const Names& labels) {
  std::string bytes;
  for (const std::string& label : labels) {
    bytes += "{\"text\": \"x\", \"label\": " + label + "}\n";
  }
  return split_of(read_jsonl(text_file_from_memory("train.jsonl", bytes)));
}

TEST(Labels, AreInferredAsRunGlueDoes) {
  const struct {
    const char* name;
    TextSplit split;
    LabelKind kind;
    Names names;
    int64_t num_labels;
  } cases[] = {
      {"strings",
       csv_labels({"pos", "neg", "pos", "\xC3\xA4"}),
       LabelKind::kClass,
       {"neg", "pos", "\xC3\xA4"},
       3},
      {"integers sort as numbers",
       csv_labels({"10", "9", "-1", "9"}),
       LabelKind::kClass,
       {"-1", "9", "10"},
       3},
      {"integers in other spellings",
       csv_labels({"07", "7", " 8", "+9"}),
       LabelKind::kClass,
       {"7", "8", "9"},
       3},
      {"floats", csv_labels({"1", "2.5"}), LabelKind::kNumbers, {}, 1},
      {"numbers and words", csv_labels({"1", "2.5", "x"}), LabelKind::kClass, {"1", "2.5", "x"}, 3},
      {"JSON integers", json_labels({"1", "0", "10", "2"}), LabelKind::kClass, {"0", "1", "2", "10"}, 4},
      {"JSON digits in quotes", json_labels({"\"10\"", "\"9\""}), LabelKind::kClass, {"10", "9"}, 2},
      {"JSON floats", json_labels({"1", "0.5"}), LabelKind::kNumbers, {}, 1},
      {"JSON truth", json_labels({"true", "false"}), LabelKind::kClass, {"false", "true"}, 2},
      {"JSON lists of names",
       json_labels({"[\"b\", \"a\"]", "[]", "[\"c\"]"}),
       LabelKind::kClasses,
       {"a", "b", "c"},
       3},
      {"JSON lists of ids", json_labels({"[10, 2]", "[9]"}), LabelKind::kClasses, {"2", "9", "10"}, 3},
      {"JSON vectors", json_labels({"[1.0, 0.0, 0.0]", "[0.0, 1.0, 1.0]"}), LabelKind::kClasses, {}, 3},
      {"JSON vectors of integers", json_labels({"[1, 0, 0]", "[0, 0, 0]"}), LabelKind::kClasses, {}, 3},
      {"one class", csv_labels({"a", "a"}), LabelKind::kClass, {"a"}, 1},
  };
  for (const auto& c : cases) {
    const LabelScheme scheme = infer_labels(c.split);
    EXPECT_EQ(scheme.kind, c.kind) << c.name;
    EXPECT_EQ(scheme.names, c.names) << c.name;
    EXPECT_EQ(scheme.num_labels, c.num_labels) << c.name;
  }
}

TEST(Labels, FollowTheProblemTypeThatIsAskedFor) {
  const LabelScheme regression = infer_labels(csv_labels({"1", "2"}), {LabelKind::kNumbers, ","});
  EXPECT_EQ(regression.kind, LabelKind::kNumbers);
  EXPECT_EQ(encode_labels(csv_labels({"1", "2"}), regression).values, (std::vector<float>{1.0f, 2.0f}));
  const LabelScheme classes = infer_labels(csv_labels({"1.5", "0.5"}), {LabelKind::kClass, ","});
  EXPECT_EQ(classes.names, (Names{"0.5", "1.5"}));
  const TextSplit sets = csv_labels({"b; a", "", "c"});
  const LabelScheme multi = infer_labels(sets, {LabelKind::kClasses, ";"});
  EXPECT_EQ(multi.names, (Names{"a", "b", "c"}));
  EXPECT_EQ(encode_labels(sets, multi).values, (std::vector<float>{1, 1, 0, 0, 0, 0, 0, 0, 1}));
  const TextSplit targets = json_labels({"[1.5, 2]", "[0, -1]"});
  const LabelScheme two = infer_labels(targets, {LabelKind::kNumbers, ","});
  EXPECT_EQ(two.num_labels, 2);
  EXPECT_EQ(encode_labels(targets, two).values, (std::vector<float>{1.5f, 2, 0, -1}));
}

// The list [0, 1] can mean a set of two classes or a vector of two targets. Tests the rule of label_lists.h that decides between them.
TEST(Labels, ListsOfZeroAndOneAreVectorsOrSets) {
  const Names classes = {"0", "1"};
  const struct {
    const char* name;
    Names labels;
    Names names;  // expected class names; empty if the labels must be read as vectors
    int64_t num_labels;
    std::vector<float> values;
  } cases[] = {
      {"two targets", {"[1, 0]", "[0, 1]"}, {}, 2, {1, 0, 0, 1}},
      {"two targets, both", {"[0, 1]", "[0, 1]"}, {}, 2, {0, 1, 0, 1}},
      {"none of two targets", {"[0, 0]", "[0, 1]"}, {}, 2, {0, 0, 0, 1}},
      {"three targets", {"[0, 1, 0]", "[1, 1, 1]"}, {}, 3, {0, 1, 0, 1, 1, 1}},
      {"one target as a float", {"[1.0]", "[0]"}, {}, 1, {1, 0}},
      {"true and false", {"[true, false]", "[false, true]"}, {}, 2, {1, 0, 0, 1}},
      {"sets of two lengths", {"[0]", "[1]", "[0, 1]"}, classes, 2, {1, 0, 0, 1, 1, 1}},
      {"sets, one empty", {"[]", "[0]", "[1]"}, classes, 2, {0, 0, 1, 0, 0, 1}},
      {"sets of one class", {"[0]", "[1]"}, classes, 2, {1, 0, 0, 1}},
      {"sets in quotes", {"[\"0\", \"1\"]", "[\"1\", \"0\"]"}, classes, 2, {1, 1, 1, 1}},
      {"sets of other ids", {"[1, 0]", "[0, 2]"}, {"0", "1", "2"}, 3, {1, 1, 0, 1, 0, 1}},
  };
  for (const auto& c : cases) {
    const TextSplit split = json_labels(c.labels);
    const LabelScheme scheme = infer_labels(split, {LabelKind::kClasses, ","});
    EXPECT_EQ(scheme.names, c.names) << c.name;
    EXPECT_EQ(scheme.num_labels, c.num_labels) << c.name;
    EXPECT_EQ(encode_labels(split, scheme).values, c.values) << c.name;
  }
}

TEST(Labels, ATextInBracketsIsAList) {
  const TextSplit vectors = csv_labels({"[0,1,0]", " [1, 1, 0]"});
  const LabelScheme targets = infer_labels(vectors, {LabelKind::kClasses, ","});
  EXPECT_TRUE(targets.names.empty());
  EXPECT_EQ(encode_labels(vectors, targets).values, (std::vector<float>{0, 1, 0, 1, 1, 0}));
  const TextSplit sets = csv_labels({"[\"\"b\"\", \"\"a\"\"]", "a", ""});
  const LabelScheme names = infer_labels(sets, {LabelKind::kClasses, ","});
  EXPECT_EQ(names.names, (Names{"a", "b"}));
  EXPECT_EQ(encode_labels(sets, names).values, (std::vector<float>{1, 1, 1, 0, 0, 0}));
  const TextSplit values = csv_labels({"[1.5, 2]", "[0, -1]"});
  const LabelScheme regression = infer_labels(values, {LabelKind::kNumbers, ","});
  EXPECT_EQ(encode_labels(values, regression).values, (std::vector<float>{1.5f, 2, 0, -1}));
}

// A model that was trained with multi-hot vectors has the classes LABEL_0, LABEL_1, .... A file for such a model may contain sets of ids
// or vectors, and both must be read correctly.
TEST(Labels, VectorsGoWithAModelsOwnLabels) {
  LabelScheme scheme = given_labels({"LABEL_0", "LABEL_1", "LABEL_2"});
  scheme.kind = LabelKind::kClasses;
  EXPECT_EQ(encode_labels(json_labels({"[0, 1, 0]", "[1, 1, 0]"}), scheme).values,
            (std::vector<float>{0, 1, 0, 1, 1, 0}));
  EXPECT_EQ(encode_labels(json_labels({"[0, 2]", "[1]"}), scheme).values,
            (std::vector<float>{1, 0, 1, 0, 1, 0}));
  EXPECT_NE(error_of([&] {
              encode_labels(json_labels({"[0, 1, 0]", "[1, 1]"}), scheme);
            }).find("4: train.jsonl:2: this label has 2 numbers, but each label of the model has 3"),
            std::string::npos);
}

TEST(Labels, BecomeIds) {
  const TextSplit train = csv_labels({"b", "a", "c", "a"});
  const LabelScheme scheme = infer_labels(train);
  const Labels labels = encode_labels(train, scheme);
  EXPECT_EQ(labels.classes, (std::vector<int32_t>{1, 0, 2, 0}));
  const LabelBalance balance = label_balance(labels, scheme.num_labels);
  EXPECT_EQ(balance.majority, 0);
  EXPECT_DOUBLE_EQ(balance.majority_share, 0.5);
  EXPECT_EQ(encode_labels(csv_labels({"07"}), infer_labels(csv_labels({"7", "8"}))).classes,
            (std::vector<int32_t>{0}));
}

// If the classes are named 1 and 2, the label 1 is a name, but the label 0 can only be an id. Both would mean the first class, so the
// label 0 must be refused.
TEST(Labels, AreNotReadPartlyAsNamesAndPartlyAsIds) {
  const LabelScheme shifted = given_labels({"1", "2"});
  EXPECT_EQ(encode_labels(csv_labels({"2", "1"}), shifted).classes, (std::vector<int32_t>{1, 0}));
  for (const LabelUse use : {LabelUse::kRequired, LabelUse::kOptional}) {
    const std::string error = error_of([&] { encode_labels(csv_labels({"1", "0"}), shifted, use); });
    EXPECT_NE(error.find("train.csv:3: the label '0' is the id of a class, not a name"), std::string::npos)
        << error;
    EXPECT_NE(error.find("(id 0 has the name '1')"), std::string::npos) << error;
    EXPECT_NE(error.find("correct id2label"), std::string::npos) << error;
  }
  const auto refuses = [](const Names& names, const TextSplit& split, LabelKind kind = LabelKind::kClass) {
    LabelScheme scheme = given_labels(names);
    scheme.kind = kind;
    return error_of([&] { encode_labels(split, scheme); }).find("is the id of a class") != std::string::npos;
  };
  EXPECT_TRUE(refuses({"1.0", "2.0"}, csv_labels({"1", "0"})));
  EXPECT_TRUE(refuses({"1", "0"}, csv_labels({"01"}))) << "0 and 1 are names, 01 is an id";
  EXPECT_TRUE(refuses({"2", "3", "a"}, json_labels({"[1, 2]"}), LabelKind::kClasses));
  EXPECT_FALSE(refuses({"0", "1"}, csv_labels({"1", "0"})));
  EXPECT_FALSE(refuses({"1", "0"}, csv_labels({"1", "0"}))) << "every label is a name";
  EXPECT_FALSE(refuses({"nan", "inf"}, csv_labels({"1", "0"})));
  EXPECT_EQ(encode_labels(csv_labels({"1", "b", "0"}), given_labels({"a", "b"})).classes,
            (std::vector<int32_t>{1, 1, 0}))
      << "without numbers as names, an id has only one meaning";
}

TEST(Labels, ToPredictMayBeMissing) {
  const LabelScheme scheme = infer_labels(csv_labels({"0", "1"}));
  EXPECT_EQ(encode_labels(csv_labels({"-1", "", "1"}), scheme, LabelUse::kOptional).classes,
            (std::vector<int32_t>{kNoLabel, kNoLabel, 1}));
  const LabelScheme sets = infer_labels(json_labels({"[\"a\"]", "[\"b\"]"}));
  const Labels unknown = encode_labels(json_labels({"[\"b\"]", "null"}), sets, LabelUse::kOptional);
  EXPECT_EQ(unknown.values[1], 1.0f);
  EXPECT_TRUE(std::isnan(unknown.values[2]));
  const TextSplit none = split_of(read_csv(text_file_from_memory("t.csv", "text\nx\n")));
  EXPECT_TRUE(encode_labels(none, scheme, LabelUse::kOptional).empty());
  EXPECT_NE(error_of([&] { encode_labels(none, scheme); }).find("expected a label column, found 'text'"),
            std::string::npos);
}

TEST(Labels, TakeTheOrderOfAModel) {
  LabelScheme scheme = infer_labels(csv_labels({"neg", "neu", "pos"}));
  EXPECT_FALSE(take_model_order(scheme, {"LABEL_0", "LABEL_1", "LABEL_2"}));
  EXPECT_FALSE(take_model_order(scheme, {"POS", "NEG"}));
  EXPECT_FALSE(take_model_order(scheme, {"POS", "pos", "neg"}));
  EXPECT_TRUE(take_model_order(scheme, {"POS", "NEG", "NEU"}));
  EXPECT_EQ(encode_labels(csv_labels({"neg", "pos"}), scheme).classes, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(scheme.names_by_id(), (Names{"pos", "neg", "neu"}));
}

TEST(Labels, TakeTheListOfAModelThatHasMore) {
  LabelScheme scheme = infer_labels(csv_labels({"neg", "pos"}));
  EXPECT_FALSE(take_model_list(scheme, {"POS", "NEG"})) << "as many: take_model_order";
  EXPECT_FALSE(take_model_list(scheme, {"LABEL_0", "LABEL_1", "LABEL_2"}));
  EXPECT_FALSE(take_model_list(scheme, {"POS", "NEU", "ODD"}));
  EXPECT_TRUE(take_model_list(scheme, {"POS", "NEU", "NEG"}));
  EXPECT_EQ(scheme.num_labels, 3);
  EXPECT_EQ(scheme.names_by_id(), (Names{"pos", "NEU", "neg"}));
  EXPECT_EQ(encode_labels(csv_labels({"neg", "NEU"}), scheme).classes, (std::vector<int32_t>{2, 1}));
  LabelScheme numbers = infer_labels(csv_labels({"2", "00"}));
  EXPECT_TRUE(take_model_list(numbers, {"0", "1", "2"}));
  EXPECT_EQ(encode_labels(csv_labels({"02", "1"}), numbers).classes, (std::vector<int32_t>{2, 1}));
}

TEST(Labels, SayWhatIsWrongAndWhere) {
  const LabelScheme ab = infer_labels(csv_labels({"a", "b"}));
  const auto infer = [](const TextSplit& split, std::optional<LabelKind> kind = std::nullopt) {
    return error_of([&] { infer_labels(split, {kind, ","}); });
  };
  const struct {
    const char* name;
    std::string error;
    const char* part;
  } cases[] = {
      {"unseen", error_of([&] {
         encode_labels(csv_labels({"a", "c"}), ab);
       }),
       "4: train.csv:3: the label 'c' is not in the training data, which has 'a', 'b'"},
      {"empty", infer(csv_labels({"a", ""})), "4: train.csv:3: this row has no label"},
      {"NaN", infer(csv_labels({"1.5", "nan"})), "4: train.csv:3: the label nan is not a finite number"},
      {"infinite", infer(csv_labels({"1.5", "1e39"})),
       "4: train.csv:3: the label 1e39 is not a finite number in fp32; correct it, or remove the row"},
      {"not a number", infer(csv_labels({"1.5", "x"}), LabelKind::kNumbers),
       "4: train.csv:3: the label 'x' is not a number, which regression needs"},
      {"null", infer(json_labels({"1", "null"})), "4: train.jsonl:2: this row has no label"},
      {"mixed", infer(json_labels({"1", "\"a\""})),
       "4: train.jsonl:2: the label 'a' is text, but that of line 1 is a number; write all labels"},
      {"object", infer(json_labels({"{\"a\": 1}"})), "4: train.jsonl:1: the label is an object"},
      {"list for one class", infer(json_labels({"[1]"}), LabelKind::kClass),
       "4: train.jsonl:1: the label is a list"},
      {"list of lists", infer(json_labels({"[[1]]"})), "4: train.jsonl:1: a list of labels contains a list"},
      {"vectors of two lengths", infer(json_labels({"[1.0, 0.0]", "[1.0]"})),
       "4: train.jsonl:2: the label is a list of 1 number, but that of line 1 has 2: [1.0]"},
      {"vectors of integers of two lengths", infer(json_labels({"[1, 0]", "[0, 1]", "[1]"})),
       "4: train.jsonl:3: the label is a list of 1 number, but that of line 1 has 2: [1]"},
      {"vector with another number", infer(json_labels({"[1, 0, 0]", "[0, 0, 2]"})),
       "4: train.jsonl:2: a list of 0 and 1 contains '2': [0,0,2]"},
      {"vector with a fraction", infer(json_labels({"[1.0, 0.0]", "[0.5, 1.0]"})),
       "4: train.jsonl:2: a list of 0 and 1 contains '0.5'"},
      {"vector with a missing number", infer(csv_labels({"[0 1 1]", "[0, nan, 1]"})),
       "4: train.csv:3: a list of labels contains null: [0, nan, 1]"},
      {"names with a missing one", infer(csv_labels({"['a', None]", "['b']"})),
       "4: train.csv:2: a list of labels contains null: ['a', None]"},
      {"vector that was shortened", infer(csv_labels({"[0 0 0 ... 0 0 1]", "[1 0 0 ... 0 0 1]"})),
       "4: train.csv:2: the label was shortened when it was printed, so its values are lost"},
      {"brackets that are no list", infer(csv_labels({"a", "[0,1"}), LabelKind::kClasses),
       "4: train.csv:3: the label begins with '[' but is not a list: [0,1"},
      {"vector without brackets", infer(csv_labels({"0,1", "1,0,0"}), LabelKind::kClasses),
       "4: train.csv:3: the label contains a class twice: 1,0,0"},
      {"targets of two lengths", infer(json_labels({"[1.5, 2]", "[1]"}), LabelKind::kNumbers),
       "4: train.jsonl:2: this label has 1 number, but that of the first row has 2"},
      {"empty item", infer(csv_labels({"a,,b"}), LabelKind::kClasses),
       "4: train.csv:2: an empty label between two"},
      {"no label anywhere", infer(json_labels({"[]", "[]"})), "no row has a label"},
      {"unseen in a set",
       error_of([&] { encode_labels(json_labels({"[\"z\"]"}), infer_labels(json_labels({"[\"a\"]"}))); }),
       "4: train.jsonl:1: the label 'z' is not in the training data"},
  };
  for (const auto& c : cases) {
    EXPECT_NE(c.error.find(c.part), std::string::npos)
        << c.name << ": " << c.error << "\n  expected " << c.part;
  }
}

TEST(Labels, ListsAtMostTenKnownClasses) {
  Names many;
  for (int i = 0; i < 25; ++i) {
    many.push_back(fmt::format("class{:02}", i));
  }
  const LabelScheme scheme = infer_labels(csv_labels(many));
  const std::string error = error_of([&] { encode_labels(csv_labels({"other"}), scheme); });
  EXPECT_NE(error.find("'class09' and 15 more"), std::string::npos) << error;
}

TEST(Labels, ListsInCsvAreSetsOrVectors) {
  const struct {
    const char* name;
    std::vector<std::string> labels;
    std::vector<std::string> names;  // expected class names; empty if labels must be read as vectors
    int64_t num_labels;
    std::vector<float> values;
  } cases[] = {
      {"vectors", {"[1, 0, 1]", "[0, 0, 0]"}, {}, 3, {1, 0, 1, 0, 0, 0}},
      {"vectors of floats", {"[1.0, 0.0]", "[0.0, 1.0]"}, {}, 2, {1, 0, 0, 1}},
      {"vectors of NumPy", {"[1 0 1]", "[0 0 0]"}, {}, 3, {1, 0, 1, 0, 0, 0}},
      {"vectors of floats of NumPy", {"[1. 0.]", "[ 0.  1.]"}, {}, 2, {1, 0, 0, 1}},
      {"vectors of Python's booleans", {"[True, False]", "[True, True]"}, {}, 2, {1, 0, 1, 1}},
      {"names in JSON", {"[\"\"b\"\", \"\"a\"\"]", "[\"\"a\"\"]"}, {"a", "b"}, 2, {1, 1, 1, 0}},
      {"names in Python",
       {"['b', 'a']", "[]", "['it\\'s']"},
       {"a", "b", "it's"},
       3,
       {1, 1, 0, 0, 0, 0, 0, 0, 1}},
      {"names in Python with quotes", {"[\"\"it's\"\", 'a']", "['a']"}, {"a", "it's"}, 2, {1, 1, 1, 0}},
      {"names of NumPy", {"['b' 'a']", "['b']"}, {"a", "b"}, 2, {1, 1, 0, 1}},
      {"ids", {"[3, 10]", "[10]"}, {"3", "10"}, 2, {1, 1, 0, 1}},
      {"blanks", {" [3,10] ", "[ 10 ]"}, {"3", "10"}, 2, {1, 1, 0, 1}},
      {"tuples", {"(1, 0, 1)", "(0,0,0)"}, {}, 3, {1, 0, 1, 0, 0, 0}},
      {"tuples of names", {"('b', 'a')", "('a',)", "()"}, {"a", "b"}, 2, {1, 1, 1, 0, 0, 0}},
      {"sets", {"{'a', 'b'}", "{'a'}", "set()"}, {"a", "b"}, 2, {1, 1, 1, 0, 0, 0}},
      {"frozen sets", {"frozenset({'a', 'b'})", "frozenset()"}, {"a", "b"}, 2, {1, 1, 0, 0}},
      {"sets of the classes 0 and 1", {"{0, 1}", "{1, 0}"}, {"0", "1"}, 2, {1, 1, 1, 1}},
      {"arrays", {"array([1, 0, 1])", "np.array([0,0,0], dtype=int8)"}, {}, 3, {1, 0, 1, 0, 0, 0}},
      {"tensors",
       {"tensor([1., 0.])", "tensor([0, 1], dtype=torch.float32, device='cuda:0')"},
       {},
       2,
       {1, 0, 0, 1}},
      {"types of NumPy", {"[np.int64(3), np.int64(10)]", "[np.int64(10)]"}, {"3", "10"}, 2, {1, 1, 0, 1}},
      {"strings of NumPy", {"[np.str_('a'), np.str_('b')]", "['a']"}, {"a", "b"}, 2, {1, 1, 1, 0}},
      {"truth of NumPy", {"[np.True_, np.False_]", "[np.True_, np.True_]"}, {}, 2, {1, 0, 1, 1}},
      {"names without quotes", {"[a, very good]", "[a]"}, {"a", "very good"}, 2, {1, 1, 1, 0}},
      {"several lines", {"[1\n 0]", "[0\n 1]"}, {}, 2, {1, 0, 0, 1}},
  };
  for (const auto& c : cases) {
    const TextSplit split = csv_labels(c.labels);
    const LabelScheme scheme = infer_labels(split);
    EXPECT_EQ(scheme.kind, LabelKind::kClasses) << c.name;
    EXPECT_EQ(scheme.names, c.names) << c.name;
    EXPECT_EQ(scheme.num_labels, c.num_labels) << c.name;
    EXPECT_EQ(encode_labels(split, scheme).values, c.values) << c.name;
  }
  EXPECT_EQ(infer_labels(csv_labels({"[1 0]", "x"})).kind, LabelKind::kClass);
  EXPECT_EQ(infer_labels(csv_labels({"[a", "[b]"})).kind, LabelKind::kClass);
  // Names in brackets, parentheses or braces are names of classes.
  EXPECT_EQ(infer_labels(csv_labels({"[POS]", "[NEG]"})).names, (Names{"[NEG]", "[POS]"}));
  EXPECT_EQ(infer_labels(csv_labels({"(none)", "(a, b)"})).names, (Names{"(a, b)", "(none)"}));
  EXPECT_EQ(infer_labels(csv_labels({"{a}", "{b}"})).names, (Names{"{a}", "{b}"}));
  // Lists and dictionaries that cannot be read are refused instead of becoming classes.
  const auto error = [](const Names& labels) { return error_of([&] { infer_labels(csv_labels(labels)); }); };
  EXPECT_TRUE(error({"{'a': 1, 'b': 0}", "{'a': 0, 'b': 1}"})
                  .starts_with("4: train.csv:2: the label is an object: {'a': 1, 'b': 0}"));
  EXPECT_TRUE(error({"array([1, 0])", "array([[1, 0]])"})
                  .starts_with("4: train.csv:3: the label begins with 'array(' but is not a list"));
  EXPECT_TRUE(error({"tensor([0, 1])", "tensor([0, ..., 1])"})
                  .starts_with("4: train.csv:3: the label was shortened when it was printed"));
}

// A file for evaluation may write the labels of training in another way: as floats, or as the truth values of JSON or Python.
TEST(Labels, AreComparedByValue) {
  const struct {
    TextSplit train;
    TextSplit other;
  } cases[] = {
      {csv_labels({"0", "1"}), csv_labels({"0.0", "1.0"})},
      {json_labels({"0", "1"}), csv_labels({"0.0", "1."})},
      {csv_labels({"0", "1"}), json_labels({"0.0", "1.0"})},
      {json_labels({"\"0.0\"", "\"1.0\""}), csv_labels({"0", "1"})},
      {json_labels({"false", "true"}), csv_labels({"False", "True"})},
      {csv_labels({"False", "True"}), json_labels({"false", "true"})},
      {csv_labels({"FALSE", "TRUE"}), csv_labels({"false", "true"})},
  };
  for (const auto& c : cases) {
    const LabelScheme scheme = infer_labels(c.train);
    ASSERT_EQ(scheme.kind, LabelKind::kClass) << c.train.label(0);
    EXPECT_EQ(encode_labels(c.other, scheme).classes, (std::vector<int32_t>{0, 1})) << c.other.label(0);
  }
  const LabelScheme ids = given_labels({"neg", "pos"});
  EXPECT_EQ(encode_labels(csv_labels({"0.0", "1.0"}), ids).classes, (std::vector<int32_t>{0, 1}));
  EXPECT_NE(error_of([&] { encode_labels(csv_labels({"0.5"}), ids); }), "no error");
  // Two names with the same value are different classes, so that only the text decides.
  const LabelScheme both = infer_labels(csv_labels({"True", "true", "x"}));
  EXPECT_EQ(encode_labels(csv_labels({"true", "True"}), both).classes, (std::vector<int32_t>{1, 0}));
  EXPECT_NE(error_of([&] { encode_labels(csv_labels({"TRUE"}), both); }), "no error");
}

TEST(Labels, AChosenDelimiterMeansSets) {
  for (const char* delimiter : {"#", "|", "||", " / "}) {
    const TextSplit split = csv_labels({fmt::format("b{}a", delimiter), "a", "c"});
    LabelOptions options;
    options.delimiter = delimiter;
    options.has_delimiter = true;
    const LabelScheme scheme = infer_labels(split, options);
    EXPECT_EQ(scheme.kind, LabelKind::kClasses) << delimiter;
    EXPECT_EQ(scheme.names, (std::vector<std::string>{"a", "b", "c"})) << delimiter;
    EXPECT_EQ(encode_labels(split, scheme).values, (std::vector<float>{1, 1, 0, 1, 0, 0, 0, 0, 1}));
  }
}

TEST(Labels, WarnWithTheLine) {
  const struct {
    std::vector<std::string> labels;
    const char* warning;  // start of the expected warning; empty if none is expected
  } cases[] = {
      {{"a#b", "b#c", "a"},
       "train.csv:2: the label 'a#b' is read as one class, but looks like several labels; for "
       "a multi-label task give --label_delimiter '#'"},
      {{"x", "a|b", "b|x"}, "train.csv:3: the label 'a|b' is read as one class"},
      {{"a||b", "b||a"},
       "train.csv:2: the label 'a||b' is read as one class, but looks like several labels; for a "
       "multi-label task give --label_delimiter '||'"},
      {{"a;b", "b;a"}, "train.csv:2: the label 'a;b'"},
      {{"a, b", "b", "a"}, "train.csv:2: the label 'a, b' is read as one class"},
      {{"Science, Technology", "Business", "Sports"}, ""},
      {{"C#", "F#", "C"}, ""},
      {{"a/b", "b/a"}, ""},
      {{"1 0 1", "0 1 1"},
       "train.csv:3: the label '0 1 1' is read as one class, but looks like a vector with one target per "
       "class; for a "
       "multi-label task write it as a list, [0, 1, 1]"},
      {{"1,0,1", "0,1,1"}, "train.csv:3: the label '0,1,1' is read as one class, but looks like a vector"},
      {{"(0, 1, 1)", "(0, 1, 0)", "pos"},
       "train.csv:2: the label '(0, 1, 1)' is a list, but the label of line 4 ('pos')"},
      {{"{'a': 1, 'b': 0}", "{'a': 1, 'b': 1}", "pos"}, ""},
      {{"very good", "good", "very bad", "bad"}, ""},
      {{"0", "1", "good"},
       "train.csv:4: the label 'good' is a word, but the label of line 2 is a number ('0'): both are "
       "read as names of classes"},
      {{"pos", "1", "neg"},
       "train.csv:2: the label 'pos' is a word, but the label of line 3 is a number ('1')"},
      {{"1.5", "n/a"}, "train.csv:3: the label 'n/a' is a word, but the label of line 2 is a number"},
      {{"[1 0]", "[0 1]", "x"},
       "train.csv:2: the label '[1 0]' is a list, but the label of line 4 ('x') is not"},
      {{"1.0", "0.0"},
       "train.csv:2: the labels are numbers that are not all integers (1.0), so the model learns a "
       "regression"},
      {{"1", "0", "0.5"}, "train.csv:4: the labels are numbers that are not all integers (0.5)"},
      {{"0", "1"}, ""},
      {{"a", "b"}, ""},
      {{"[1 0]", "[0 1]"}, ""},
  };
  for (const auto& c : cases) {
    const TextSplit split = csv_labels(c.labels);
    const std::vector<std::string> warnings = label_warnings(split, infer_labels(split), false);
    if (*c.warning == '\0') {
      EXPECT_TRUE(warnings.empty()) << c.labels[0] << ": " << warnings[0];
      continue;
    }
    ASSERT_EQ(warnings.size(), 1u) << c.labels[0];
    EXPECT_TRUE(warnings[0].starts_with(c.warning)) << warnings[0] << "\n  expected " << c.warning;
  }
  // The JSON reader stores the label 1.0 as 1. The warning must nevertheless show 1.0, as in the file.
  const TextSplit floats = json_labels({"1", "1.0", "0.0"});
  EXPECT_TRUE(label_warnings(floats, infer_labels(floats), false)[0].starts_with(
      "train.jsonl:2: the labels are numbers that are not all integers (1.0)"));
  const TextSplit split = csv_labels({"1.0", "0.5"});
  EXPECT_TRUE(label_warnings(split, infer_labels(split, {LabelKind::kNumbers}), true).empty());
}

}  // namespace
}  // namespace plimsoll
