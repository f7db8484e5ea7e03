// Test cases of bad input: names of models and GPUs, sizes, and label maps (id2label) in forms that the program
// does not know or that are unusual but valid.
#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

Case model(std::string name, Words message, const std::string& model_name) {
  return words(std::move(name), 2, std::move(message),
               {"train", "--model_name_or_path", model_name, "--train_file", "none.csv", "--output_dir",
                "none", "--dry_run"});
}

Case labels(std::string name, int exit_code, Words message, std::string map) {
  return {std::move(name), exit_code, std::move(message), [map = std::move(map)](const Ground& ground) {
            std::string text = read_file(ground.model() + "/config.json");
            const size_t begin = text.find("\"id2label\"");
            text.replace(begin, text.find('}', begin) + 1 - begin, map);
            return Words{"inspect", ground.model_with("config.json", text)};
          }};
}

// Makes a test case that evaluates a model on a data file with these rows, each a text and a label. `map` replaces
// the value of id2label (the names of the classes) in the model's config.json.
Case file_of_labels(std::string name, int exit_code, Words message, std::string map, std::string rows) {
  return {std::move(name), exit_code, std::move(message),
          [map = std::move(map), rows = std::move(rows)](const Ground& ground) {
            std::string text = read_file(ground.model() + "/config.json");
            const size_t begin = text.find("\"id2label\"");
            text.replace(begin, text.find('}', begin) + 1 - begin, map);
            return ground.evaluate(ground.model_with("config.json", text),
                                   ground.file("labels_of_model.csv", "sentence,label\n" + rows));
          }};
}

}  // namespace

std::vector<Case> spelling_cases() {
  return {
      model("NameShort", {"did you mean 'bert-large-uncased'"}, "bert-large"),
      model("NameMisspelled", {"did you mean 'distilbert-base-uncased'"}, "distillbert-base-uncased"),
      model("NameWithAMissingLetter", {"did you mean 'roberta-base'"}, "roberta-bse"),
      model("NameShortDistilbert", {"did you mean 'distilbert-base-uncased'"}, "distilbert"),
      model("NameOfGptNeo",
            {"the architecture is GPT;",
             "this version trains bert, camembert, distilbert, electra, gpt2, llama, mistral, modernbert, "
             "qwen2, "
             "qwen3, roberta, xlm-roberta"},
            "EleutherAI/gpt-neo-125m"),
      model("NameOfXlmRobertaXl", {"the architecture is XLM-RoBERTa-XL;", "this version trains"},
            "facebook/xlm-roberta-xl"),
      model("NameOfT5", {"the architecture is T5;", "this version trains"}, "t5-small"),
      words("NameOfDebertaForAPlan", 2, {"the architecture is DeBERTa;", "this version trains"},
            {"plan", "--config_name", "microsoft/deberta-v3-base"}),
      words("CardOfNoMemory", 2, {"--device v100", "did you mean 'v100-16gb'"},
            {"plan", "--config_name", "bert-base-uncased", "--device", "v100"}),
      words("CardWithItsBrand", 2, {"did you mean '4090'"},
            {"plan", "--config_name", "bert-base-uncased", "--device", "rtx4090"}),
      words("CardInCapitals", 0, {"h100"},
            {"plan", "--config_name", "bert-base-uncased", "--device", "H100"}),
      words("CardUnknown", 2, {"--device mi300x: expected auto, cpu, cuda:N"},
            {"plan", "--config_name", "bert-base-uncased", "--device", "mi300x"}),
      words("DeviceInCapitals", 2, {"did you mean 'cpu'"},
            {"plan", "--config_name", "bert-base-uncased", "--device", "CPU"}),
      words("SizeWithoutUnit", 2, {"--memory_limit: 16 has no unit", "16GiB"},
            {"plan", "--config_name", "bert-base-uncased", "--memory_limit", "16"}),
      words("FractionWithoutUnit", 2, {"--memory_limit: 1.5 has no unit", "1.5GiB"},
            {"plan", "--config_name", "bert-base-uncased", "--memory_limit", "1.5"}),
      words("SizeWithoutUnitForFit", 2, {"fit: --memory: 80 has no unit", "80GiB"},
            {"fit", "--model_name_or_path", "bert-base-uncased", "--memory", "80"}),
      file_of_labels("LabelsAreIdsOfShiftedIntegers", 4,
                     {"labels_of_model.csv:3: the label '0' is the id of a class", "id 0 has the name '1'"},
                     R"("id2label": {"0": 1, "1": 2})", "word1,1\nword2,0\n"),
      file_of_labels("LabelsAreShiftedIntegers", 0, {"eval_accuracy"}, R"("id2label": {"0": 1, "1": 2})",
                     "word1,2\nword2,1\n"),
      labels("LabelsOfIntegers", 0, {"label   1  7"}, R"("id2label": {"0": 3, "1": 7})"),
      labels("LabelsOfNull", 0, {"label   0  None"}, R"("id2label": {"0": null, "1": true})"),
      labels("LabelsFromOne", 0, {"label   0  a", "label   1  b"}, R"("id2label": {"1": "a", "2": "b"})"),
      labels("LabelsWithTextKeys", 4,
             {"config.json", "id2label has the entry \"a\"", "keys must be integers"},
             R"("id2label": {"a": 0, "b": 1})"),
      labels("LabelsOfLists", 4, {"id2label has the entry \"0\": [1]"},
             R"("id2label": {"0": [1], "1": [2]})"),
      labels("LabelsTwice", 4, {"has two entries for the key 1"}, R"("id2label": {"1": "a", "01": "b"})"),
      labels("LabelsInAList", 4, {"'id2label' must be an object"}, R"("id2label": ["a", "b"])"),
  };
}

}  // namespace plimsoll::testing
