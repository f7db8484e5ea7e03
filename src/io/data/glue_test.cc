#include "io/data/glue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/data/testing/letter_encoder.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

// A small file per task in the layout of the task, and the expected content of its first row.
struct GlueCase {
  const char* task;
  const char* file;
  GlueSplit split;
  const char* bytes;
  int64_t num_rows;
  const char* first;
  const char* second;  // the expected second text; empty for tasks with one text
  double label;        // the expected class id or regression value; -1 if the file has no labels
};

const GlueCase kCases[] = {
    {"cola", "CoLA/train.tsv", GlueSplit::kTrain,
     "gj04\t1\t\tOur friends won't buy \"this.\ngj04\t0\t*\tThey drank the pub.\n", 2,
     "Our friends won't buy \"this.", "", 1},
    {"cola", "CoLA/test.tsv", GlueSplit::kTest, "index\tsentence\n0\tBill whistled past.\n", 1,
     "Bill whistled past.", "", -1},
    {"sst2", "SST-2/dev.tsv", GlueSplit::kValidation, "sentence\tlabel\nit 's a charming journey . \t1\n", 1,
     "it 's a charming journey . ", "", 1},
    {"mrpc", "MRPC/train.tsv", GlueSplit::kTrain,
     "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t70\t71\tAmrozi said \"x\tReferring "
     "to\r\n",
     1, "Amrozi said \"x", "Referring to", 1},
    {"mrpc", "MRPC/test.tsv", GlueSplit::kTest, "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\ta\tb\n",
     1, "a", "b", -1},
    {"stsb", "STS-B/train.tsv", GlueSplit::kTrain,
     "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
     "0\tmain\tMSRvid\t2012\t1\tnone\tnone\tA plane\tAn air plane\t4.800\n",
     1, "A plane", "An air plane", 4.8},
    {"qqp", "QQP/train.tsv", GlueSplit::kTrain,
     "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tHow?\tWhy?"
     "\t0\n4\t5\t6\tbroken\n7\t8\t9\tA?\tB?\t1\n",
     2, "How?", "Why?", 0},
    {"mnli", "MNLI/dev_mismatched.tsv", GlueSplit::kValidationMismatched,
     "index\tpromptID\tsentence1\tsentence2\tlabel1\tgold_label\n0\t1\tp\th\tneutral\tcontradiction\n", 1,
     "p", "h", 2},
    {"qnli", "QNLI/dev.tsv", GlueSplit::kValidation,
     "index\tquestion\tsentence\tlabel\n0\tWhat?\tThat.\tnot_entailment\n", 1, "What?", "That.", 1},
    {"rte", "RTE/train.tsv", GlueSplit::kTrain, "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n",
     1, "a", "b", 0},
    {"wnli", "WNLI/train.tsv", GlueSplit::kTrain, "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n", 1, "a",
     "b", 1},
};

// The data sets on Hugging Face's hub use other names for some columns, and their files of CoLA have a header. Both must be read.
TEST(Glue, TakesTheColumnsOfTheHubsCopies) {
  const test::ScratchFolder folder;
  const GlueCase cases[] = {
      {"mrpc", "mrpc.tsv", GlueSplit::kTrain, "sentence1\tsentence2\tlabel\na \"b\tc\t1\n", 1, "a \"b", "c",
       1},
      {"mnli", "mnli.tsv", GlueSplit::kTrain, "premise\thypothesis\tlabel\na\tb\t2\n", 1, "a", "b", 2},
      {"cola", "cola.tsv", GlueSplit::kTrain, "sentence\tlabel\na\tacceptable\n", 1, "a", "", 1},
      {"qqp", "qqp.tsv", GlueSplit::kTrain, "question1\tquestion2\tlabel\na\tb\t0\n", 1, "a", "b", 0},
      {"stsb", "stsb.tsv", GlueSplit::kTrain, "sentence1\tsentence2\tlabel\na\tb\t4.5\n", 1, "a", "b", 4.5},
  };
  for (const GlueCase& c : cases) {
    SCOPED_TRACE(c.file);
    const GlueTask& task = find_glue_task(c.task);
    const TextSplit split = read_glue_file(task, folder.write(c.file, c.bytes), c.split);
    ASSERT_EQ(split.num_rows(), c.num_rows);
    EXPECT_EQ(split.first_text(0), c.first);
    EXPECT_EQ(split.second_text(0).value_or(""), c.second);
    const Labels labels = encode_labels(split, glue_labels(task));
    EXPECT_EQ(task.is_regression() ? static_cast<double>(labels.values[0]) : labels.classes[0], c.label);
  }
  const std::string odd = folder.write("odd.tsv", "what\tever\tkind\na\tb\tequivalent\n");
  EXPECT_NE(
      error_of([&] { read_glue_file(find_glue_task("mrpc"), odd, GlueSplit::kTrain); }).find("'#1 String'"),
      std::string::npos);
  const TextSplit named = read_glue_file(find_glue_task("mrpc"), odd, GlueSplit::kTrain,
                                         {.text = {"what", "ever"}, .label = "kind"});
  EXPECT_EQ(named.second_text(0).value_or(""), "b");
}

TEST(Glue, ReadsEveryTasksOwnFiles) {
  const test::ScratchFolder folder;
  const std::filesystem::path root = folder.path();
  for (const GlueCase& c : kCases) {
    SCOPED_TRACE(c.file);
    folder.write(c.file, c.bytes);
    const GlueTask& task = find_glue_task(c.task);
    const TextSplit split = read_glue(task, folder.path(), c.split);
    ASSERT_EQ(split.num_rows(), c.num_rows);
    EXPECT_EQ(split.first_text(0), c.first);
    EXPECT_EQ(split.second_text(0).value_or(""), c.second);
    const Labels labels = encode_labels(split, glue_labels(task), LabelUse::kOptional);
    if (c.label < 0) {
      EXPECT_TRUE(labels.empty());
    } else if (task.is_regression()) {
      EXPECT_EQ(labels.values[0], static_cast<float>(c.label));
    } else {
      EXPECT_EQ(labels.classes[0], static_cast<int32_t>(c.label));
    }
    // The function must accept both the folder of the task and its parent.
    EXPECT_EQ(glue_file(task, root / task.folder, c.split), root / c.file);
  }
}

TEST(Glue, CountsTheRowsItLeavesOut) {
  const test::ScratchFolder folder;
  folder.write("QQP/train.tsv", kCases[6].bytes);
  const TextSplit questions = read_glue(find_glue_task("qqp"), folder.path(), GlueSplit::kTrain);
  EXPECT_EQ(questions.num_skipped_rows(), 1);
  EXPECT_EQ(questions.first_skipped_line(), 3);
}

TEST(Glue, SplitsMrpcAsItsAuthorsPublishIt) {
  const test::ScratchFolder folder;
  folder.write("msr_paraphrase_train.txt",
               "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta\tb\n0\t3\t4\tc\td\n1\t5\t6\te\tf\n");
  folder.write("mrpc_dev_ids.tsv", "3\t4\n");
  const GlueTask& mrpc = find_glue_task("MRPC");
  const TextSplit train = read_glue(mrpc, folder.path(), GlueSplit::kTrain);
  const TextSplit validation = read_glue(mrpc, folder.path(), GlueSplit::kValidation);
  ASSERT_EQ(train.num_rows(), 2);
  EXPECT_EQ(train.first_text(1), "e");
  EXPECT_EQ(train.line(1), 4);
  ASSERT_EQ(validation.num_rows(), 1);
  EXPECT_EQ(validation.first_text(0), "c");
}

TEST(Glue, SaysWhatIsMissing) {
  const test::ScratchFolder folder;
  EXPECT_TRUE(error_of([] { find_glue_task("boolq"); })
                  .starts_with("2: 'boolq' is not a GLUE task; choose from cola, mnli, mrpc, qnli, qqp, rte, "
                               "sst2, stsb, wnli"));
  const std::string error =
      error_of([&] { read_glue(find_glue_task("rte"), folder.path(), GlueSplit::kTrain); });
  EXPECT_TRUE(error.starts_with("4: no file of GLUE's RTE in ")) << error;
  EXPECT_NE(error.find("RTE/train.tsv"), std::string::npos) << error;
  folder.write("RTE/dev.tsv", "index\tsentence1\tlabel\n0\ta\tentailment\n");
  const std::string column =
      error_of([&] { read_glue(find_glue_task("rte"), folder.path(), GlueSplit::kValidation); });
  EXPECT_NE(
      column.find("column 'sentence2' is missing: expected 'sentence1', 'sentence2', 'label', found 'index'"),
      std::string::npos)
      << column;
  folder.write("RTE/train.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tmaybe\n");
  const TextSplit split = read_glue(find_glue_task("rte"), folder.path(), GlueSplit::kTrain);
  EXPECT_NE(error_of([&] {
              encode_labels(split, glue_labels(find_glue_task("rte")));
            }).find("RTE/train.tsv:2: the label 'maybe' is not one of the task's labels"),
            std::string::npos);
}

TEST(Glue, TasksHaveTheirMetrics) {
  EXPECT_EQ(glue_tasks().size(), 9u);
  EXPECT_EQ(find_glue_task("stsb").metrics, (std::vector<std::string_view>{"pearson", "spearmanr"}));
  EXPECT_EQ(find_glue_task("qqp").metrics, (std::vector<std::string_view>{"accuracy", "f1"}));
  EXPECT_EQ(find_glue_task("cola").metrics, (std::vector<std::string_view>{"matthews_correlation"}));
}

}  // namespace
}  // namespace plimsoll
