// docs/COMBINATIONS.md is generated from the table of training methods and from the program's answer to each pair of methods. This test
// generates the document, writes it to the build folder, and compares it with the file in docs/. The result does not depend on the machine:
// GPUs are planned as an H200, CPUs as one with AMX.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "base/file.h"
#include "hardware/gpu_target.h"
#include "plan/compile/plan.h"
#include "plimsoll/arguments.h"
#include "plimsoll/methods.h"
#include "plimsoll/trainer.h"
#include "run/run_setup.h"

namespace plimsoll {
namespace {

// Returns the first line of an error message.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// Returns the sentence that docs/COMBINATIONS.md must contain about a method that has no effect on a CPU. Fails the test if the program
// neither refuses the method on a CPU nor explains in a note why it has no effect there.
std::string on_cpu(const Method& method) {
  std::vector<std::string> words{"--config_name", "bert-base-uncased", "--use_cpu", "--num_threads", "2"};
  words.insert(words.end(), method.words.begin(), method.words.end());
  std::string why(method.not_on_cpu);
  try {
    const RunSetup setup =
        prepare_run(parse_arguments(words).arguments, RunPurpose::kPlan, {}, posix_file_system());
    EXPECT_FALSE(setup.diagnostics.notes.empty())
        << method.name << " has no effect on a CPU, and nothing says so";
    return why + "; not refused: a note says so, and the run continues without it";
  } catch (const Error& error) {
    EXPECT_NE(first_line(error.what()).find("CPU"), std::string::npos) << error.what();
    return why;
  }
}

// Returns the reason why the two methods cannot be combined on this device, or an empty string if they can.
std::string refusal(const Method& a, const Method& b, KernelDevice device) {
  if (&a != &b && !set_different_arguments({&a, &b}))
    return "both are values of `" + std::string(a.words.front()) + "`, which holds one";
  if (device == KernelDevice::kCpu) {
    for (const Method* method : {&a, &b}) {
      if (!method->not_on_cpu.empty()) return on_cpu(*method);
    }
  }
  std::vector<std::string> words{"--config_name", "bert-base-uncased", "--device",
                                 "h200",          "--num_threads",     "2"};
  words.insert(words.end(), a.words.begin(), a.words.end());
  if (&a != &b) words.insert(words.end(), b.words.begin(), b.words.end());
  try {
    PlanRequest request =
        prepare_run(parse_arguments(words).arguments, RunPurpose::kPlan, {}, posix_file_system()).request;
    if (device == KernelDevice::kCpu) {
      request.device.kind = KernelDevice::kCpu;
      request.device.isa = CpuIsa::kAmx;
    }
    build_plan(request);
    return {};
  } catch (const Error& error) {
    return first_line(error.what());
  }
}

std::string describe_effect(MethodEffect effect) {
  switch (effect) {
    case MethodEffect::kSameBits:
      return "the same bits";
    case MethodEffect::kSameSums:
      return "the same sums in another order";
    case MethodEffect::kRounding:
      return "another precision";
    case MethodEffect::kOtherPath:
      return "trains differently";
  }
  return "?";
}

std::string matrix(KernelDevice device, std::vector<std::string>& notes) {
  const std::vector<Method>& methods = method_table();
  std::string text = "| |";
  for (const Method& method : methods) text += " " + std::string(method.name) + " |";
  text += "\n|---|";
  for (size_t i = 0; i < methods.size(); ++i) text += "---|";
  text += "\n";
  for (const Method& row : methods) {
    text += "| " + std::string(row.name) + " |";
    for (const Method& column : methods) {
      const std::string why = refusal(row, column, device);
      if (why.empty()) {
        text += " yes |";
        continue;
      }
      auto it = std::find(notes.begin(), notes.end(), why);
      if (it == notes.end()) it = notes.insert(notes.end(), why);
      text += " (" + std::to_string(it - notes.begin() + 1) + ") |";
    }
    text += "\n";
  }
  return text;
}

using Refused = std::vector<std::vector<std::string>>;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Returns a Markdown table of argument combinations that the program refuses, with its messages. The generated
// table of pairs of methods does not contain these combinations.
std::string refusals(const Refused& refused) {
  std::string text = "| arguments | the program says |\n|---|---|\n";
  for (const std::vector<std::string>& arguments : refused) {
    std::vector<std::string> words{"--config_name", "bert-base-uncased", "--device", "h200"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::string said;
    try {
      build_plan(
          prepare_run(parse_arguments(words).arguments, RunPurpose::kPlan, {}, posix_file_system()).request);
    } catch (const Error& error) {
      said = first_line(error.what());
    }
    EXPECT_FALSE(said.empty()) << joined(arguments) << " is not refused";
    // An asterisk in a message belongs to a name pattern such as *query*. It is escaped, because Markdown would
    // start italics there.
    for (size_t at = said.find('*'); at != std::string::npos; at = said.find('*', at + 2))
      said.insert(at, "\\");
    text += "| `" + joined(arguments) + "` | " + said + " |\n";
  }
  return text;
}

// The program refuses these combinations because mathematics, the hardware or the meaning of the arguments
// rules them out.
const Refused kRuledOut{{"--recompute_budget", "8GiB", "--gradient_checkpointing", "True"},
                        {"--recompute_budget", "8GiB", "--recompute", "selective"},
                        {"--recompute_budget", "8GiB", "--offload_activations"},
                        {"--optimizer_in_backward", "True"},
                        {"--optim", "sgd_8bit"},
                        {"--load_in_4bit"},
                        {"--lora_r", "8", "--load_in_4bit", "--load_in_8bit"},
                        {"--bf16", "--bf16_full_eval", "--fp16_full_eval"},
                        {"--bf16", "--gradient_dtype", "fp16"}};

// The program refuses these combinations because they are not implemented.
const Refused kNotHere{{"--lora_r", "8", "--load_in_4bit", "--bnb_4bit_compute_dtype", "bfloat16"},
                       {"--bf16", "--lora_r", "8", "--load_in_4bit", "--bnb_4bit_compute_dtype", "float32"},
                       {"--freeze", "*query*"},
                       {"--lora_r", "8", "--modules_to_save", "query"},
                       {"--lora_r", "8", "--load_in_8bit", "--llm_int8_skip_modules", "query"},
                       {"--lora_bias", "all"},
                       {"--use_dora"},
                       {"--rank_pattern", "query=4"},
                       {"--alpha_pattern", "query=4"},
                       {"--init_lora_weights", "pissa"},
                       {"--load_in_8bit", "--llm_int8_enable_fp32_cpu_offload"},
                       {"--load_in_8bit", "--llm_int8_has_fp16_weight"}};

// Returns a Markdown table of arguments with which Trainer::update_by() is refused, with the messages.
// update_by() applies a program's own update rule in a custom training loop.
std::string own_rules() {
  std::string text = "| arguments | update_by() says |\n|---|---|\n";
  const std::string folder = ::testing::TempDir() + "/plimsoll_own_rules";
  for (const std::vector<std::string>& arguments :
       Refused{{"--optimizer_in_backward", "True", "--max_grad_norm", "0"}, {"--optim", "adamw_8bit"}}) {
    std::vector<std::string> words{"--config_name",
                                   "MiniLM-L6-H384-uncased",
                                   "--dataset_name",
                                   "dummy",
                                   "--dummy_num_samples",
                                   "2",
                                   "--dummy_seq_length",
                                   "8",
                                   "--per_device_train_batch_size",
                                   "1",
                                   "--num_threads",
                                   "1",
                                   "--use_cpu",
                                   "--output_dir",
                                   folder};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::string said;
    try {
      Trainer trainer(parse_arguments(words).arguments);
      trainer.forward_backward(trainer.next_batch());
      trainer.update_by([](const OwnParameter&) {});
    } catch (const Error& error) {
      said = first_line(error.what());
    }
    EXPECT_TRUE(said.starts_with("update_by(): ")) << joined(arguments) << ": " << said;
    text += "| `" + joined(arguments) + "` | " + said + " |\n";
  }
  return text;
}

std::string page() {
  std::string text =
      "# Combinations of methods\n\n"
      "This page is generated from the table of methods (`src/plan/search/methods.cc`) and from what the "
      "program says to\n"
      "each pair. To write it anew, run `ctest -R combinations_document_test` in the build directory and "
      "copy\n"
      "`COMBINATIONS.md` from there over this file.\n\n"
      "Any two methods combine, or the program refuses them by name with the reason. `tests/combinations/` "
      "runs every pair,\n"
      "and 200 random larger sets, on a small model: the arena is the planned one to the byte, losses are "
      "those without the\n"
      "method as the table says, and a run that was resumed ends with the same bits.\n\n"
      "| method | arguments | against a run without it | what it does |\n|---|---|---|---|\n";
  for (const Method& method : method_table()) {
    text += "| " + std::string(method.name) + " | `";
    for (size_t i = 0; i < method.words.size(); ++i)
      text += (i == 0 ? "" : " ") + std::string(method.words[i]);
    text += "` | " + describe_effect(method.effect) + " | " + std::string(method.help) + " |\n";
  }
  std::vector<std::string> notes;
  text += "\n## On a GPU\n\nOf compute capability 8.0 or later.\n\n" + matrix(KernelDevice::kCuda, notes);
  text += "\n## On a CPU\n\nOf those that multiply bf16; the others refuse bf16 by name.\n\n" +
          matrix(KernelDevice::kCpu, notes);
  text += "\n## Why not\n\n";
  for (size_t i = 0; i < notes.size(); ++i) text += std::to_string(i + 1) + ". " + notes[i] + "\n";
  text += "\n## What else is refused\n\n" + refusals(kRuledOut);
  text +=
      "\n## What this version has not\n\n"
      "Neither mathematics nor hardware rules these out: they are not built. Query, key and value of a layer "
      "are one matrix in\n"
      "memory, multiplied and updated as one, so that what holds for one of them holds for all.\n\n" +
      refusals(kNotHere);
  text +=
      "\nAn update rule that the user writes, for `Trainer::update_by()`, is a host function on complete "
      "fp32 numbers. It runs only\n"
      "on a CPU (`--use_cpu`), and not together with\n\n" +
      own_rules();
  return text;
}

TEST(CombinationsPage, IsWhatTheProgramSays) {
  const std::string fresh = page();
  std::ofstream(std::string(PLIMSOLL_BINARY_DIR) + "/COMBINATIONS.md") << fresh;
  std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR) + "/docs/COMBINATIONS.md");
  const std::string kept{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_TRUE(kept == fresh) << "docs/COMBINATIONS.md is stale: cp " << PLIMSOLL_BINARY_DIR
                             << "/COMBINATIONS.md " << PLIMSOLL_SOURCE_DIR << "/docs/COMBINATIONS.md";
}

// The names of methods must be unique, and the arguments of each method must be arguments that the program
// accepts.
TEST(Methods, HaveNamesAndArgumentsOfTheirOwn) {
  ASSERT_GE(method_table().size(), 4u);
  std::map<std::string_view, int> names;
  for (const Method& method : method_table()) {
    EXPECT_EQ(++names[method.name], 1) << method.name;
    EXPECT_EQ(find_method(method.name), &method);
    EXPECT_FALSE(method.kind.empty()) << method.name;
    EXPECT_FALSE(method.help.empty()) << method.name;
    EXPECT_EQ(refusal(method, method, KernelDevice::kCuda), "") << method.name;
  }
  EXPECT_EQ(find_method("nonsense"), nullptr);
}

}  // namespace
}  // namespace plimsoll
