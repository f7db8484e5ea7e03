// Test cases of bad input: checkpoints from which a run cannot be resumed.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

// Makes a test case that resumes a copy of the run in which one file of the last checkpoint is changed.
Case checkpoint(std::string name, int exit_code, Words message, std::string file,
                std::function<void(std::string&)> change) {
  return {std::move(name), exit_code, std::move(message),
          [file = std::move(file), change = std::move(change)](const Ground& ground) {
            const std::string run = ground.run_copy();
            const std::string path = run + "/checkpoint-2/" + file;
            std::string text = read_file(path);
            change(text);
            ground.file(fs::relative(path, ground.path("")).string(), text);
            return ground.resume(run, {"--resume_from_checkpoint", run + "/checkpoint-2"});
          }};
}

// Makes a test case that resumes from a folder which contains empty files with these names.
Case foreign(std::string name, Words message, Words names) {
  return {std::move(name), 4, std::move(message), [names = std::move(names)](const Ground& ground) {
            const std::string folder = ground.model_with("", "");
            const std::string relative = fs::path(folder).filename().string();
            for (const std::string& file : names) {
              fs::create_directories(fs::path(folder + "/" + file).parent_path());
              ground.file(relative + "/" + file, "");
            }
            return ground.resume(ground.path("foreign"), {"--resume_from_checkpoint", folder});
          }};
}

}  // namespace

std::vector<Case> checkpoint_cases() {
  const auto cut = [](std::string& text) { text.resize(text.size() / 2); };
  const auto flip = [](std::string& text) {
    text[text.size() - 9] = static_cast<char>(text[text.size() - 9] ^ 1);
  };
  const auto resume_with = [](std::string name, int exit_code, Words message, Words more) {
    return Case{std::move(name), exit_code, std::move(message),
                [more = std::move(more)](const Ground& ground) {
                  const std::string run = ground.run_copy();
                  Words all = {"--resume_from_checkpoint", run + "/checkpoint-2"};
                  all.insert(all.end(), more.begin(), more.end());
                  return ground.resume(run, all);
                }};
  };
  return {
      {"CheckpointAtTheEnd",
       0,
       {"nothing is left to train", "training was already complete at step 2", "--max_steps", "unchanged"},
       [](const Ground& ground) {
         return ground.resume(ground.run_copy(), {"--resume_from_checkpoint", "True", "--max_steps", "2"});
       }},
      resume_with("CheckpointOfOtherFrozenWeights", 4,
                  {"the saved optimizer state has", "--optim", "frozen (--freeze)"},
                  {"--freeze", "bert.embeddings.*"}),
      {"CheckpointsOfAnotherRun",
       2,
       {"holds checkpoints of another run (begun 20", "checkpoint-2", "--resume_from_checkpoint True",
        "--output_dir", "--replace_checkpoints"},
       [](const Ground& ground) { return ground.resume(ground.run_copy()); }},
      resume_with("CheckpointGood", 0, {"checkpoint-2", "wrote"}, {}),
      checkpoint("CheckpointWeightsCut", 4, {"checkpoint-2", "model.safetensors"}, "model.safetensors", cut),
      checkpoint("CheckpointWeightsFlipped", 4, {"checkpoint-2", "model.safetensors"}, "model.safetensors",
                 flip),
      checkpoint("CheckpointOptimizerFlipped", 4, {"checkpoint-2", "optimizer.safetensors"},
                 "optimizer.safetensors", flip),
      checkpoint("CheckpointStateCut", 4, {"checkpoint-2", "trainer_state.json"}, "trainer_state.json", cut),
      checkpoint("CheckpointManifestCut", 4, {"checkpoint-2", "plimsoll_manifest.json"},
                 "plimsoll_manifest.json", cut),
      checkpoint("CheckpointManifestDeep", 4, {"checkpoint-2", "plimsoll_manifest.json"},
                 "plimsoll_manifest.json", [](std::string& text) { text = std::string(100000, '['); }),
      {"CheckpointFileMissing",
       4,
       {"checkpoint-2", "optimizer.safetensors"},
       [](const Ground& ground) {
         const std::string run = ground.run_copy();
         fs::remove(run + "/checkpoint-2/optimizer.safetensors");
         return ground.resume(run, {"--resume_from_checkpoint", run + "/checkpoint-2"});
       }},
      {"CheckpointNotThere",
       4,
       {"checkpoint-9", "the folder does not exist"},
       [](const Ground& ground) {
         return ground.resume(ground.path("other"),
                              {"--resume_from_checkpoint", ground.run() + "/checkpoint-9"});
       }},
      // The training data is invalid too. The error about the checkpoint must come first, because the data must not be read before.
      {"CheckpointNotThereBeforeData",
       4,
       {"checkpoint-9", "the folder does not exist"},
       [](const Ground& ground) {
         return ground.resume(ground.path("other"),
                              {"--resume_from_checkpoint", ground.run() + "/checkpoint-9", "--train_file",
                               ground.file("no.tsv", "a")});
       }},
      {"CheckpointCutBeforeData",
       4,
       {"checkpoint-2", "optimizer.safetensors"},
       [](const Ground& ground) {
         const std::string run = ground.run_copy();
         fs::resize_file(run + "/checkpoint-2/optimizer.safetensors", 100);
         return ground.resume(run, {"--resume_from_checkpoint", run + "/checkpoint-2", "--train_file",
                                    ground.file("no.tsv", "a")});
       }},
      {"OutputIsAFile",
       2,
       {"--output_dir", "taken is not a folder", "choose another"},
       [](const Ground& ground) {
         return ground.resume(ground.file("taken", ""), {"--train_file", ground.file("no.tsv", "a")});
       }},
      {"OutputIsBelowAFile",
       2,
       {"--output_dir", "taken is not a folder", "choose another"},
       [](const Ground& ground) {
         return ground.resume(ground.file("taken", "") + "/deep/run",
                              {"--train_file", ground.file("no.tsv", "a")});
       }},
      {"OutputIsALinkToNothing",
       2,
       {"--output_dir", "dangling is a link to 'nowhere', which does not exist", "create that folder"},
       [](const Ground& ground) {
         fs::create_symlink("nowhere", ground.path("dangling"));
         return ground.resume(ground.path("dangling") + "/run", {"--train_file", ground.file("no.tsv", "a")});
       }},
      {"OutputIsALinkToItself",
       2,
       {"--output_dir", "loop is a link to 'loop', which does not exist"},
       [](const Ground& ground) {
         fs::create_symlink("loop", ground.path("loop"));
         return ground.resume(ground.path("loop"), {"--train_file", ground.file("no.tsv", "a")});
       }},
      {"OutputOfAPredictionIsAFile",
       2,
       {"--output_dir", "taken is not a folder"},
       [](const Ground& ground) {
         Words words = ground.predict(ground.model());
         words.insert(words.end(), {"--output_dir", ground.file("taken", "")});
         return words;
       }},
      {"CheckpointNoneInFolder",
       0,
       {"no checkpoint to resume from", "starting from the beginning"},
       [](const Ground& ground) {
         return ground.resume(ground.path("empty_run"), {"--resume_from_checkpoint", "True"});
       }},
      {"CheckpointDamagedIsSkipped",
       0,
       {"checkpoint-2", "skipped", "checkpoint-1"},
       [](const Ground& ground) {
         const std::string run = ground.run_copy();
         fs::resize_file(run + "/checkpoint-2/optimizer.safetensors", 100);
         return ground.resume(run, {"--resume_from_checkpoint", "True"});
       }},
      foreign("CheckpointOfTrainer",
              {"a checkpoint of Hugging Face's Trainer (training_args.bin)", "--model_name_or_path"},
              {"training_args.bin", "optimizer.pt", "scheduler.pt", "trainer_state.json"}),
      foreign("CheckpointOfTrainerWithoutArguments", {"Hugging Face's Trainer (optimizer.pt)"},
              {"optimizer.pt"}),
      foreign("CheckpointOfDeepSpeed", {"a checkpoint of DeepSpeed (zero_to_fp32.py)"},
              {"zero_to_fp32.py", "global_step4/mp_rank_00_model_states.pt", "trainer_state.json"}),
      foreign("CheckpointOfAccelerate", {"a checkpoint of Hugging Face's accelerate"},
              {"random_states_0.pkl"}),
      foreign("CheckpointOfDeepSpeedWithoutScript",
              {"a checkpoint of DeepSpeed (mp_rank_00_model_states.pt)"},
              {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"}),
      foreign("CheckpointOfFsdp", {"a checkpoint of PyTorch's FSDP (pytorch_model_fsdp_0)"},
              {"pytorch_model_fsdp_0/__0_0.distcp", "optimizer_0/__0_0.distcp", "trainer_state.json"}),
      foreign("CheckpointOfTorchDistributed", {"PyTorch's FSDP or torch.distributed (__0_0.distcp)"},
              {".metadata", "__0_0.distcp"}),
      foreign("CheckpointOfLightning", {"a checkpoint of PyTorch Lightning (epoch=0-step=4.ckpt)"},
              {"epoch=0-step=4.ckpt"}),
      foreign("CheckpointOfMegatron", {"a checkpoint of Megatron-LM"},
              {"latest_checkpointed_iteration.txt", "iter_0000004/mp_rank_00/model_optim_rng.pt"}),
      foreign("CheckpointIsAModel", {"it is a model without the state of a run", "--model_name_or_path"}, {}),
      foreign("CheckpointsAreInside", {"it contains checkpoints and is none itself", "checkpoint-12"},
              {"checkpoint-3/config.json", "checkpoint-12/config.json", "trainer_state.json"}),
      {"CheckpointIsAFile",
       4,
       {"it is a file", "a checkpoint of Plimsoll is a folder"},
       [](const Ground& ground) {
         return ground.resume(ground.path("foreign"),
                              {"--resume_from_checkpoint", ground.file("last.txt", "text")});
       }},
      {"CheckpointIsAFileOfLightning",
       4,
       {"it is a checkpoint of PyTorch Lightning (last.ckpt)", "save_pretrained()"},
       [](const Ground& ground) {
         return ground.resume(ground.path("foreign"),
                              {"--resume_from_checkpoint", ground.file("last.ckpt", "text")});
       }},
      {"CheckpointNewestIsOfTrainer",
       4,
       {"--resume_from_checkpoint True", "checkpoint-9: it is a checkpoint of Hugging Face's Trainer"},
       [](const Ground& ground) {
         fs::create_directories(ground.path("trainers/checkpoint-9"));
         ground.file("trainers/checkpoint-9/optimizer.pt", "");
         return ground.resume(ground.path("trainers"), {"--resume_from_checkpoint", "True"});
       }},
      {"CheckpointAllDamaged",
       4,
       {"checkpoint-2", "all 2 checkpoints in this folder are damaged"},
       [](const Ground& ground) {
         const std::string run = ground.run_copy();
         fs::resize_file(run + "/checkpoint-2/optimizer.safetensors", 100);
         fs::resize_file(run + "/checkpoint-1/optimizer.safetensors", 100);
         return ground.resume(run, {"--resume_from_checkpoint", "True"});
       }},
      resume_with("CheckpointOfAnotherShape", 4,
                  {"checkpoint-2", "intermediate.dense", "[32, 16]", "[64, 16]", "resume with the model"},
                  {"--config_overrides", "intermediate_size=64"}),
      resume_with("CheckpointOfAnotherDepth", 4, {"checkpoint-2", "layer.1", "resume with the model"},
                  {"--config_overrides", "num_hidden_layers=2"}),
      resume_with("CheckpointOfAnotherOptimizer", 4, {"checkpoint-2", "42 tensors", "has 0", "--optim"},
                  {"--optim", "sgd"}),
      resume_with("CheckpointArgumentChanged", 0, {"--learning_rate: was 5e-05, is now 0.001"},
                  {"--learning_rate", "0.001"}),
  };
}

}  // namespace plimsoll::testing
