// Test cases of bad input for language models: files of documents, their division into blocks of tokens, the
// split into training and validation data, and the choice of the task.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

constexpr bool kHasArrow = PLIMSOLL_HAS_ARROW != 0;

std::string fixture(const std::string& name) {
  return std::string(PLIMSOLL_SOURCE_DIR) + "/src/io/data/fixtures/clm/" + name;
}

// Returns the arguments of a dry run that trains a small GPT-2 from scratch, followed by `more`.
Words of_gpt2(const Words& more) {
  Words command = {"train",
                   "--config_name",
                   "gpt2",
                   "--config_overrides",
                   "n_layer=1,n_embd=16,n_head=2,vocab_size=420,n_positions=64",
                   "--tokenizer_name",
                   fixture("plain"),
                   "--num_threads",
                   "1",
                   "--dry_run"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// Makes a test case: a dry run of GPT-2 with a training file of this name and content. An empty name means the fixture lines.txt.
Case corpus(std::string name, int exit_code, Words words, std::string file, std::string text, Words more) {
  return {std::move(name), exit_code, std::move(words),
          [file = std::move(file), text = std::move(text), more = std::move(more)](const Ground& ground) {
            Words all = {"--problem_type", "causal_lm", "--train_file",
                         file.empty() ? fixture("lines.txt") : ground.file(file, text)};
            all.insert(all.end(), more.begin(), more.end());
            return of_gpt2(all);
          }};
}

Case lines(std::string name, int exit_code, Words words, Words more) {
  return corpus(std::move(name), exit_code, std::move(words), "", "", std::move(more));
}

// Makes a test case with a training file of this name that contains 3 MB of lines.
Case large(const std::string& name, const std::string& file, const std::string& line, Words more) {
  std::string text;
  while (text.size() < size_t{3} << 20) text += line;
  return corpus(name, 3,
                {file + ": the part of the file that was read takes", "--memory_limit is 1048576 bytes"},
                file, text, std::move(more));
}

std::vector<Case> file_cases() {
  return {
      lines("CorpusStrideOfMoreThanABlock", 2,
            {"--stride 64 is more than a block, which has 32 tokens", "at most 32"},
            {"--block_size", "32", "--stride", "64", "--do_eval"}),
      lines("CorpusStrideOfPackedDocuments", 2, {"--stride 8 and --packing", "exclude each other"},
            {"--block_size", "32", "--stride", "8", "--packing", "--do_eval"}),
      lines("CorpusStrideOfNothing", 2, {"--stride: 0 is outside [1, 2147483647]"},
            {"--stride", "0", "--do_eval"}),
      lines("CorpusStrideWithoutEvaluation", 0, {"--stride has no effect without --validation_file"},
            {"--stride", "8"}),
      large("CorpusLargerThanTheLimit", "large.txt", "the quick brown fox jumps over the lazy dog\n",
            {"--memory_limit", "1MiB"}),
      large("CorpusOfRowsLargerThanTheLimit", "large.jsonl", "{\"text\": \"the quick brown fox jumps\"}\n",
            {"--memory_limit", "1MiB"}),
      large("CorpusOfNdjsonLargerThanTheLimit", "large.ndjson", "{\"text\": \"the quick brown fox jumps\"}\n",
            {"--memory_limit", "1MiB"}),
      corpus("CorpusEmpty", 4, {"empty.txt: the file is empty"}, "empty.txt", "", {}),
      corpus("CorpusOfOneToken", 4,
             {"one.txt: the data consists of 1 document with one token in total, but a causal language model "
              "needs at "
              "least 2 tokens"},
             "one.txt", "\n", {}),
      corpus("CorpusWithoutTokens", 4, {"none.txt: the data consists of 2 documents with no token in total"},
             "none.txt", "\n\n", {"--keep_linebreaks", "False"}),
      corpus("CorpusNotUtf8", 4, {"latin.txt:2:4: byte 0xE9 is not valid UTF-8", "iconv"}, "latin.txt",
             "tea\ncaf\xE9\n", {}),
      corpus("CorpusWithoutTheColumn", 4, {"rows.jsonl:1: expected a column 'body', found 'id', 'text'"},
             "rows.jsonl", "{\"id\": 1, \"text\": \"a b\"}\n", {"--text_column_names", "body"}),
      corpus("CorpusWithoutAColumnOfTexts", 4, {"numbers.csv", "no column has texts", "found 'a', 'b'"},
             "numbers.csv", "a,b\n1,2\n", {}),
      corpus("CorpusOfTwoColumns", 2, {"--text_column_names names 2 columns"}, "two.csv", "a,b\nx,y\n",
             {"--text_column_names", "a", "b"}),
      corpus("CorpusOfANumber", 4, {"mixed.jsonl:2: expected text in column 'text', found an integer"},
             "mixed.jsonl", "{\"text\": \"a b\"}\n{\"text\": 3}\n", {}),
      corpus("CorpusOfUnknownIds", 4, {"the data has the token id 999, but the model's vocab_size is 420"},
             "ids.jsonl", "{\"input_ids\": [1, 999, 2]}\n", {}),
      corpus("CorpusOfIds", 0, {"train 2 rows, 5 tokens"}, "good_ids.jsonl",
             "{\"input_ids\": [1, 9, 2]}\n{\"input_ids\": [3, 4]}\n", {"--block_size", "4"}),
      corpus("CorpusOfIdsWithTypes", 4,
             {"typed.jsonl: the file has the column 'token_type_ids', whose word embeddings", "'gpt2'",
              "remove the column"},
             "typed.jsonl", "{\"input_ids\": [1, 9, 2], \"token_type_ids\": [0, 0, 0]}\n", {}),
      corpus("CorpusOfIdsWithPositions", 4,
             {"placed.jsonl: the rows have position_ids, but Plimsoll joins rows without labels to blocks"},
             "placed.jsonl", "{\"input_ids\": [1, 9, 2], \"position_ids\": [0, 1, 2]}\n", {}),
      corpus("CorpusOfLabelledIdsWithPositions", 0, {"train 1 row, 3 tokens"}, "labelled_positions.jsonl",
             "{\"input_ids\": [1, 9, 2], \"position_ids\": [0, 1, 2], \"labels\": [-100, 9, 2]}\n",
             {"--block_size", "4"}),
      corpus("CorpusOfLabelledIds", 0, {"train 2 rows, 5 tokens"}, "labelled_ids.jsonl",
             "{\"input_ids\": [1, 9, 2], \"labels\": [-100, 9, 2]}\n{\"input_ids\": [3, 4], \"labels\": [3, "
             "4]}\n",
             {"--block_size", "4"}),
      corpus(
          "CorpusOfTooFewLabels", 4,
          {"few.jsonl:2: the row has 2 ids in 'input_ids', but 1 value in 'labels'"}, "few.jsonl",
          "{\"input_ids\": [1, 9, 2], \"labels\": [-100, 9, 2]}\n{\"input_ids\": [3, 4], \"labels\": [3]}\n",
          {}),
      corpus("CorpusOfOtherLabels", 4,
             {"other.jsonl:1: entry 2 of column 'labels' is 8", "a label is the id of its token"},
             "other.jsonl", "{\"input_ids\": [1, 9, 2], \"labels\": [-100, 8, 2]}\n", {}),
      corpus("CorpusWithoutLabels", 4,
             {"none.jsonl: no token has a label within the first", "labels other than -100"}, "none.jsonl",
             "{\"input_ids\": [1, 9, 2], \"labels\": [-100, -100, -100]}\n", {}),
      corpus("CorpusOfAnotherColumn", 0, {"note: ", "the documents are the texts of the column 'body'"},
             "body.tsv", "n\tbody\n1\tx y z\n", {}),
      kHasArrow ? corpus("CorpusParquetCutShort", 4, {"a.parquet: the file is damaged, cut short"},
                         "a.parquet", "PAR1", {})
                : corpus("CorpusParquet", 2,
                         {"Parquet files are not read", "to_json('train.jsonl', orient='records'"},
                         "a.parquet", "PAR1", {}),
      kHasArrow ? corpus("CorpusArrowCutShort", 4, {"a.arrow: the file is damaged, cut short"}, "a.arrow",
                         "ARROW1", {})
                : corpus("CorpusArrow", 2, {"Arrow files are not read", "datasets.Dataset.from_file("},
                         "a.arrow", "ARROW1", {}),
      corpus("CorpusDocx", 2, {"this file is '.docx'"}, "a.docx", "PK", {}),
      {"CorpusSavedToDisk", kHasArrow ? 4 : 2,
       kHasArrow ? Words{"saved/state.json"} : Words{"save_to_disk", "datasets.load_from_disk("},
       [](const Ground& ground) {
         std::filesystem::create_directories(ground.path("saved"));
         ground.file("saved/dataset_info.json", "{}");
         return of_gpt2({"--problem_type", "causal_lm", "--train_file", ground.path("saved")});
       }},
      {"CorpusMissing",
       4,
       {"nowhere.txt: cannot open the file"},
       [](const Ground&) {
         return of_gpt2({"--problem_type", "causal_lm", "--train_file", "nowhere.txt"});
       }},
  };
}

std::vector<Case> block_cases() {
  return {
      // The training file has 53 lines. transformers' tokenizer turns them into 662 tokens, and 53 more if an
      // end-of-text token follows each line.
      lines("BlocksOfRunClm", 0, {"train 11 rows, 662 tokens", "longest 64"}, {}),
      lines("BlocksOfASize", 0, {"train 42 rows, 662 tokens", "longest 16"}, {"--block_size", "16"}),
      lines("BlocksPacked", 0, {"662 tokens", "longest 57"}, {"--packing"}),
      lines("BlocksWithEnds", 0, {"715 tokens"}, {"--append_eos_token"}),
      lines("BlocksTooLong", 0,
            {"warning: ", "--block_size 100 is more than the positions of the model", "64"},
            {"--block_size", "100"}),
      lines("BlocksTooShort", 2, {"--block_size", "[2, 2147483647]"}, {"--block_size", "1"}),
      lines("BlocksCounted", 0, {"train 3 rows, 48 tokens"},
            {"--block_size", "16", "--max_train_samples", "3"}),
      lines("BlocksDoNotUseTheOtherLength", 0, {"--max_seq_length has no effect", "use --block_size"},
            {"--max_seq_length", "16"}),
      lines("BlocksHaveNoLabels", 2, {"--num_labels 3: a language model has no labels"},
            {"--num_labels", "3"}),
      lines("BlocksAreNotPredicted", 2,
            {"--do_predict", "a causal language model predicts the tokens of a text"}, {"--do_predict"}),
      words("BlocksOfAClassifier", 0,
            {"--block_size has no effect without --problem_type causal_lm or masked_lm"},
            {"plan", "--config_name", "bert-base-uncased", "--block_size", "16"}),
      words("BlocksInAPlan", 0, {"batch 4 x 48"},
            {"plan", "--config_name", "gpt2", "--problem_type", "causal_lm", "--block_size", "48",
             "--per_device_train_batch_size", "4"}),
      words("BlocksOfRandomIds", 0, {"train 9 rows, 288 tokens", "longest 32"},
            {"train", "--config_name", "gpt2", "--config_overrides",
             "n_layer=1,n_embd=16,n_head=2,vocab_size=420,n_positions=64", "--problem_type", "causal_lm",
             "--dataset_name", "dummy", "--dummy_num_samples", "9", "--block_size", "32", "--dry_run"}),
  };
}

std::vector<Case> split_cases() {
  return {
      // The training file has 54 documents. As with the library `datasets`, the split train[:5%] must be the
      // first 3 of them, and train[:50%] the first 27.
      lines("SplitByDefault", 0, {"validation ", "train "}, {"--do_eval"}),
      lines("SplitInHalves", 0, {"validation "}, {"--validation_split_percentage", "50"}),
      lines("SplitByNothing", 2, {"--validation_split_percentage", "[1, 99]"},
            {"--validation_split_percentage", "0"}),
      corpus("SplitOfOneDocument", 4,
             {"the file is one document, which cannot be split", "--validation_file"}, "single.txt",
             "one two three", {"--do_eval"}),
      corpus("SplitWithoutTokens", 4,
             {"2 documents", "the validation data: the data consists of 1 document with no token in total"},
             "blank.txt", "\none two three\n", {"--do_eval", "--keep_linebreaks", "False"}),
      lines("SplitWithAFile", 0, {"--validation_split_percentage has no effect with --validation_file"},
            {"--validation_split_percentage", "7", "--validation_file", fixture("rows.jsonl")}),
  };
}

std::vector<Case> task_choice_cases() {
  const auto by_file = [](std::string name, int exit_code, Words words, std::string file, std::string text,
                          Words more) {
    return Case{
        std::move(name), exit_code, std::move(words),
        [file = std::move(file), text = std::move(text), more = std::move(more)](const Ground& ground) {
          Words all = {"--train_file", ground.file(file, text)};
          all.insert(all.end(), more.begin(), more.end());
          return of_gpt2(all);
        }};
  };
  return {
      by_file("TaskOfPlainText", 0,
              {"note: ", "task.txt is plain text, so the run trains a causal language model"}, "task.txt",
              "one two three\nfour\n", {}),
      by_file("TaskOfRowsWithLabels", 0, {"2 labels"}, "task.csv", "text,label\na b,0\nc d,1\n", {}),
      by_file("TaskOfTags", 2, {"3 text columns are given"}, "tags.txt", "word NN\nother VB\n",
              {"--problem_type", "token_classification", "--text_column_names", "a", "b", "c"}),
  };
}

// Returns the arguments of a dry run of masked language modelling with a small BERT from scratch, whose
// tokenizer has 179 tokens and which has 64 positions.
Words of_bert(const Words& more, const std::string& sizes = "vocab_size=179") {
  Words command = {"train",
                   "--config_name",
                   "bert-base-uncased",
                   "--config_overrides",
                   "num_hidden_layers=1,hidden_size=16,num_attention_heads=2,intermediate_size=32,"
                   "max_position_embeddings=64," +
                       sizes,
                   "--tokenizer_name",
                   std::string(PLIMSOLL_SOURCE_DIR) + "/tests/parity/models/bert",
                   "--num_threads",
                   "1",
                   "--dry_run"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// Makes a test case: a dry run of BERT with a training file of this name and content.
Case masked(std::string name, int exit_code, Words words, std::string file, std::string text,
            const Words& more, std::string sizes = "vocab_size=179") {
  return {
      std::move(name), exit_code, std::move(words),
      [file = std::move(file), text = std::move(text), more, sizes = std::move(sizes)](const Ground& ground) {
        Words all = {"--problem_type", "masked_lm", "--train_file", ground.file(file, text)};
        all.insert(all.end(), more.begin(), more.end());
        return of_bert(all, sizes);
      }};
}

std::vector<Case> masked_cases() {
  // The lines of this text have 5, 2 and 4 tokens, including [CLS] and [SEP].
  const std::string text = "the kernel module\n\na package\n";
  return {
      masked("MaskedBlocks", 0, {"train 1 row, 11 tokens", "logits of 179 tokens"}, "a.txt", text, {}),
      masked("MaskedBlocksOfASize", 0, {"train 3 rows, 11 tokens", "longest 4"}, "a.txt", text,
             {"--max_seq_length", "4"}),
      masked("MaskedBlocksOfABlockSize", 0, {"train 3 rows, 11 tokens", "longest 4"}, "a.txt", text,
             {"--block_size", "4"}),
      masked("MaskedTwoLengths", 2, {"--block_size 4 and --max_seq_length 8 both state the length"}, "a.txt",
             text, {"--block_size", "4", "--max_seq_length", "8"}),
      masked("MaskedTooLong", 0, {"--max_seq_length 100 is more than the positions", "blocks have 64 tokens"},
             "a.txt", text, {"--max_seq_length", "100"}),
      masked("MaskedLines", 0, {"train 2 rows, 9 tokens", "longest 5"}, "a.txt", text, {"--line_by_line"}),
      masked("MaskedLinesCut", 0, {"train 2 rows, 8 tokens", "1 of 3 rows were cut to 4 tokens", "1 token"},
             "a.txt", text, {"--line_by_line", "--max_seq_length", "4"}),
      masked("MaskedLinesPacked", 2, {"--line_by_line", "--packing", "makes each line a row"}, "a.txt", text,
             {"--line_by_line", "--packing"}),
      masked("MaskedPacked", 0, {"11 tokens", "longest 5"}, "a.txt", text, {"--packing"}),
      masked("MaskedRows", 0, {"train 1 row, 9 tokens"}, "a.jsonl",
             "{\"text\": \"the kernel module\"}\n{\"text\": \"a package\"}\n", {}),
      masked("MaskedCells", 0, {"train 2 rows, 9 tokens"}, "a.csv", "text\nthe kernel module\na package\n",
             {"--line_by_line"}),
      masked("MaskedIds", 0, {"train 1 row, 4 tokens"}, "a.jsonl", "{\"input_ids\": [2, 90, 91, 3]}\n", {}),
      masked("MaskedNothing", 4, {"blank.txt", "at least one token that is not special", "3 documents"},
             "blank.txt", "\n\n\n", {}),
      masked("MaskedOnlySpecialIds", 4, {"at least one token that is not special", "(1 document) has none"},
             "a.jsonl", "{\"input_ids\": [2, 4, 3]}\n", {}),
      masked("MaskedNever", 2, {"--mlm_probability", "(0, 1]"}, "a.txt", text, {"--mlm_probability", "0"}),
      masked("MaskedMoreThanAlways", 2, {"--mlm_probability", "(0, 1]"}, "a.txt", text,
             {"--mlm_probability", "1.5"}),
      masked("MaskedNegative", 2, {"--mlm_probability", "(0, 1]"}, "a.txt", text,
             {"--mlm_probability", "-0.1"}),
      masked("MaskedAlways", 0, {"train 1 row"}, "a.txt", text, {"--mlm_probability", "1"}),
      masked("MaskedByATokenOutside", 4, {"the tokenizer has the id 178, but the model's vocab_size is 4"},
             "a.txt", text, {}, "vocab_size=4"),
      masked("MaskedIdOutside", 4, {"the data has the token id 500, but the model's vocab_size is 179"},
             "a.jsonl", "{\"input_ids\": [2, 90, 500, 3]}\n", {}),
      masked("MaskedWithoutAMaskToken", 2, {"has no mask token", "mask_token", "tokenizer_config.json"},
             "a.txt", text, {"--tokenizer_name", fixture("plain")}, "vocab_size=420"),
      masked("MaskedIdsWithoutATokenizer", 2, {"tokenizer"}, "a.jsonl", "{\"input_ids\": [2, 90, 91, 3]}\n",
             {"--tokenizer_name", ""}),
      masked("MaskedPredicted", 2, {"a masked language model predicts the tokens of a text"}, "a.txt", text,
             {"--do_predict"}),
      masked("MaskedWithLabels", 2, {"--num_labels 3: a language model has no labels"}, "a.txt", text,
             {"--num_labels", "3"}),
      masked("MaskedTextsOfTwoColumns", 2, {"names 2 columns, but a masked language model reads one"},
             "a.csv", "a,b\nx,y\n", {"--text_column_names", "a", "b"}),
      words("MaskedDecoder", 2, {"a model of type 'gpt2' has no head for masked language modelling", "bert"},
            {"plan", "--config_name", "gpt2", "--problem_type", "masked_lm"}),
      words("CausalEncoder", 2, {"a model of type 'bert' has no head for causal language modelling", "gpt2"},
            {"plan", "--config_name", "bert-base-uncased", "--problem_type", "causal_lm"}),
      words("MaskedInAPlan", 0, {"batch 4 x 48"},
            {"plan", "--config_name", "roberta-base", "--problem_type", "masked_lm", "--max_seq_length", "48",
             "--per_device_train_batch_size", "4"}),
      words("MaskedRandomIds", 0, {"train 9 rows, 288 tokens"},
            {"train", "--config_name", "electra-small-discriminator", "--config_overrides",
             "num_hidden_layers=1,hidden_size=16,num_attention_heads=2,intermediate_size=32",
             "--problem_type", "masked_lm", "--dataset_name", "dummy", "--dummy_num_samples", "9",
             "--dummy_seq_length", "32", "--dry_run"}),
      words("MasksOfAClassifier", 0,
            {"--mlm_probability has no effect without --problem_type masked_lm",
             "--line_by_line has no effect without --problem_type masked_lm"},
            {"plan", "--config_name", "bert-base-uncased", "--mlm_probability", "0.3", "--line_by_line"}),
      words("InspectedLines", 0, {"53 documents", "column 'text'", "line 1: "},
            {"inspect", fixture("lines.txt"), "--problem_type", "masked_lm"}),
      words("InspectedRows", 0, {"documents", "column 'text'", "line 1: "},
            {"inspect", fixture("rows.jsonl"), "--problem_type", "causal_lm"}),
      words("InspectedLabels", 4, {"no column has texts"},
            {"inspect", std::string(PLIMSOLL_SOURCE_DIR) + "/tests/parity/data/tokens.jsonl",
             "--problem_type", "masked_lm"}),
      lines("MasksOfACausalModel", 2, {"--line_by_line", "use --packing"}, {"--line_by_line"}),
  };
}

}  // namespace

std::vector<Case> corpus_cases() {
  return joined({file_cases(), block_cases(), split_cases(), task_choice_cases(), masked_cases()});
}

}  // namespace plimsoll::testing
