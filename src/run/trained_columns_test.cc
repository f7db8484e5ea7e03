// Tests how the names of data columns are stored in a model's config.json.
#include "run/model_source.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(TrainedColumns, ComeBackAsTheyWereWritten) {
  const std::string text = with_trained_columns(R"({"model_type": "bert", "mine": 1})", {{"a", "b"}, "kind"});
  EXPECT_EQ(text,
            R"({"label_column_name":"kind","mine":1,"model_type":"bert","text_column_names":["a","b"]})");
  EXPECT_EQ(trained_columns(text).text, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(trained_columns(text).label, "kind");
  // If a model is trained further on data whose columns are not known, the stored names must be removed.
  EXPECT_EQ(with_trained_columns(text, {}), R"({"mine":1,"model_type":"bert"})");
  EXPECT_EQ(with_trained_columns("", {}), "");
  EXPECT_EQ(trained_columns(with_trained_columns("", {{"a"}, "label"})).label, "label");
  const std::string sets = with_trained_columns("", {{"a"}, "topics", "#"});
  EXPECT_EQ(trained_columns(sets).label_delimiter, "#");
  EXPECT_EQ(trained_columns(with_trained_columns(sets, {{"a"}, "kind"})).label_delimiter, "");
}

TEST(TrainedColumns, KeysOfOtherTypesSayNothing) {
  for (const char* text : {"", "[]", "{}", R"({"text_column_names": "a"})", R"({"text_column_names": [1]})",
                           R"({"text_column_names": []})", R"({"text_column_names": ["a", "b", "c"]})",
                           R"({"label_column_name": 3})"}) {
    EXPECT_TRUE(trained_columns(text).text.empty()) << text;
    EXPECT_EQ(trained_columns(text).label, "") << text;
  }
}

}  // namespace
}  // namespace plimsoll
