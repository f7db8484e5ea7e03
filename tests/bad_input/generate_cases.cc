// Test cases of bad input: prompts, settings and output files of `generate`, and the tokenizers of language
// models.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

std::string model() {
  return std::string(PLIMSOLL_SOURCE_DIR) + "/tests/parity/models/llama_lm";
}

Words of_llama(const Words& more) {
  Words command = {"generate", "--model_name_or_path", model(), "--use_cpu", "--num_threads", "1"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

Case generation(std::string name, int exit_code, Words words, Words more) {
  return {std::move(name), exit_code, std::move(words),
          [more = std::move(more)](const Ground&) { return of_llama(more); }};
}

// Makes a test case that generates texts from a prompt file of this name and content.
Case prompts(std::string name, int exit_code, Words words, std::string file, std::string text) {
  return {std::move(name), exit_code, std::move(words),
          [file = std::move(file), text = std::move(text)](const Ground& ground) {
            return of_llama({"--prompt_file", ground.file(file, text)});
          }};
}

std::string many(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "good ";
  return text;
}

std::vector<Case> prompt_cases() {
  return {
      generation("GenerateWithoutPrompt", 2, {"there is no prompt", "--prompt_file"}, {}),
      generation("GenerateLongPrompt", 2, {"the prompt has", "64 positions", "Shorten the prompt"},
                 {many(100)}),
      generation("GeneratePromptNotUtf8", 2, {"byte 0xE9 at byte 3", "iconv"}, {"caf\xE9"}),
      generation("GenerateTwoSources", 2, {"prompts are given in two ways", "--prompt_file"},
                 {"good", "--prompt_file", "x.txt"}),
      generation("GenerateRandomAndText", 2, {"--dataset_name dummy", "1 text"},
                 {"good", "--dataset_name", "dummy"}),
      generation("GenerateRandomAndInteractive", 2, {"--dataset_name dummy", "--interactive"},
                 {"--interactive", "--dataset_name", "dummy"}),
      generation("GenerateMissingPromptFile", 2, {"--prompt_file /nonexistent", "No such file"},
                 {"--prompt_file", "/nonexistent"}),
      generation("GenerateFolderAsPromptFile", 4, {"this is a folder"}, {"--prompt_file", model()}),
      prompts("GenerateEmptyPromptFile", 4, {"p.txt", "empty"}, "p.txt", ""),
      prompts("GenerateBinaryPromptFile", 4, {"b.txt:1:3: NUL byte"}, "b.txt", std::string("ab\0cd", 5)),
      prompts("GenerateLatinPromptFile", 4, {"l.txt:2:4: byte 0xE9 is not valid UTF-8", "iconv"}, "l.txt",
              "tea\ncaf\xE9\n"),
      prompts("GenerateWordFileAsPrompts", 4, {"w.txt", "archive"}, "w.txt",
              std::string("PK\x03\x04") + "docx"),
      prompts("GeneratePromptOfANumber", 4, {"n.jsonl:2: a JSON object with the text \"prompt\"", "3"},
              "n.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": 3}\n"),
      prompts("GenerateLongSecondPrompt", 2, {"prompt 2: the prompt has", "64 positions"}, "s.txt",
              "good\n" + many(100) + "\n"),
  };
}

std::vector<Case> setting_cases() {
  return {
      generation("GenerateTooManyTokens", 2, {"max_new_tokens is 2147483647", "has room for", "at most"},
                 {"good", "--max_new_tokens", "2147483647"}),
      generation("GenerateMoreThanAnInteger", 2, {"--max_new_tokens: 99999999999 is outside [1, 2147483647]"},
                 {"good", "--max_new_tokens", "99999999999"}),
      generation("GenerateNoBeams", 2, {"--num_beams: 0 is outside"}, {"good", "--num_beams", "0"}),
      generation("GenerateMoreBeamsThanTokens", 2, {"num_beams is 1000", "179 tokens", "89 beams"},
                 {"good", "--num_beams", "1000"}),
      generation("GenerateIntoNoFolder", 7, {"--json /nonexistent/x.jsonl: cannot write", "No such file"},
                 {"good", "--json", "/nonexistent/x.jsonl"}),
      generation("GenerateIntoAFolder", 7, {"cannot write the file", "Is a directory"},
                 {"good", "--json", model()}),
      generation("GenerateOnAFullDisk", 7, {"--json /dev/full: cannot write", "No space left"},
                 {"good", "--json", "/dev/full"}),
      generation("GenerateNotEnoughMemory", 3, {"will not fit", "--max_new_tokens", "MiB"},
                 {"good", "--memory_limit", "1MiB", "--dry_run", "--max_new_tokens", "40"}),
      generation("GenerateDummyLengthAlone", 0,
                 {"--dummy_seq_length has no effect without --dataset_name dummy"},
                 {"good", "--dummy_seq_length", "5"}),
      {"GenerateRandomWeights",
       2,
       {"no trained weights", "--dataset_name dummy to measure"},
       [](const Ground&) {
         return Words{"generate", "--config_name", "gpt2", "good"};
       }},
      {"PlanOfALongPrompt",
       2,
       {"2000 tokens and the model has 1024 positions"},
       [](const Ground&) {
         return Words{"plan", "--phase", "generate", "--config_name", "gpt2", "--prompt_length", "2000"};
       }},
      {"PlanOfNoPrompt",
       2,
       {"--prompt_length 0: expected a number of tokens from 1"},
       [](const Ground&) {
         return Words{"plan", "--phase", "generate", "--config_name", "gpt2", "--prompt_length", "0"};
       }},
      {"PlanOfAPromptToTrain",
       2,
       {"--prompt_length is for --phase generate"},
       [](const Ground&) {
         return Words{"plan", "--config_name", "gpt2", "--prompt_length", "8"};
       }},
      {"PlanOfBeamsToTrain",
       0,
       {"--num_beams has no effect here: plan --phase generate"},
       [](const Ground&) {
         return Words{"plan", "--config_name", "bert-base-uncased", "--device", "cpu", "--num_beams", "4"};
       }},
  };
}

// Makes a test case with a model folder that contains the vocabulary of another kind of tokenizer.
Case foreign_vocabulary(const std::string& name, const std::string& model_type, const std::string& from) {
  return {name,
          4,
          {"vocab.txt is a vocabulary for BERT's WordPiece", "model_type is '" + model_type + "'",
           "\"tokenizer_class\": \"BertTokenizer\""},
          [=](const Ground& ground) {
            const std::string folder = ground.path(name);
            const std::string source = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/parity/models/" + from;
            std::filesystem::create_directories(folder);
            for (const char* file : {"config.json", "model.safetensors", "vocab.txt"}) {
              std::filesystem::copy_file(source + "/" + file, folder + "/" + file,
                                         std::filesystem::copy_options::overwrite_existing);
            }
            return Words{"generate", "--model_name_or_path", folder, "--use_cpu", "good"};
          }};
}

}  // namespace

std::vector<Case> generate_cases() {
  std::vector<Case> cases = prompt_cases();
  for (Case& each : setting_cases()) cases.push_back(std::move(each));
  cases.push_back(foreign_vocabulary("VocabularyOfBertForQwen", "qwen3", "qwen3_lm"));
  cases.push_back(foreign_vocabulary("VocabularyOfBertForGpt2", "gpt2", "gpt2_lm"));
  return cases;
}

}  // namespace plimsoll::testing
