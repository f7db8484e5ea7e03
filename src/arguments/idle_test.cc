// Tests of settings that have no effect in combination with others: the note for each, and that no note
// appears if the setting has an effect.
#include "arguments/idle.h"

#include <gtest/gtest.h>

#include "arguments/testing/parse_words.h"

namespace plimsoll {
namespace {

using test::parse;
using Words = std::vector<std::string>;

struct Case {
  Words idle;        // settings without an effect
  Words more;        // the settings they are combined with
  Words counts;      // settings with which they have an effect
  std::string note;  // the rest of the note after the name
};

Words joined(const Words& a, const Words& b) {
  Words all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{"--max_seq_length", "64"},
       {"--dataset_name", "dummy"},
       {"--dataset_name", "dummy", "--dummy_seq_length", "64"},
       "the sequences of --dataset_name dummy have --dummy_seq_length, which is 512"},
      {{"--max_eval_samples", "10"},
       {},
       {"--do_eval"},
       "nothing is evaluated: --do_eval does at the end, --eval_strategy while training"},
      {{"--max_predict_samples", "10"}, {}, {"--do_predict"}, "nothing is predicted: --do_predict does"},
      {{"--overwrite_cache", "True"},
       {},
       {"--cache_dir", "tokens"},
       "tokens are kept nowhere: --cache_dir FOLDER says where"},
      {{"--dummy_num_samples", "7"},
       {},
       {"--dataset_name", "dummy"},
       "it is of --dataset_name dummy, which is not given"},
      {{"--dummy_seq_length", "7"},
       {},
       {"--dataset_name", "dummy"},
       "it is of --dataset_name dummy, which is not given"},
      {{"--num_train_epochs", "5"}, {"--max_steps", "9"}, {}, "--max_steps 9 says where the run ends"},
      {{"--data_seed", "7"},
       {"--train_sampling_strategy", "sequential"},
       {"--train_sampling_strategy", "group_by_length"},
       "with --train_sampling_strategy sequential the data comes in the order of the file"},
      {{"--warmup_steps", "0.1"},
       {"--lr_scheduler_type", "constant"},
       {"--lr_scheduler_type", "constant_with_warmup"},
       "--lr_scheduler_type constant has no warm-up; constant_with_warmup has"},
      {{"--warmup_steps", "7"},
       {"--lr_scheduler_type", "reduce_lr_on_plateau", "--eval_strategy", "epoch"},
       {},
       "--lr_scheduler_type reduce_lr_on_plateau has no warm-up"},
      {{"--adam_beta1", "0.5"},
       {"--optim", "sgd"},
       {"--optim", "lion"},
       "--optim sgd has no betas; what it has is set with --optim_args"},
      {{"--adam_beta2", "0.5"},
       {"--optim", "adafactor"},
       {"--optim", "adamw_8bit"},
       "--optim adafactor has no betas; what it has is set with --optim_args"},
      {{"--adam_epsilon", "1e-06"}, {"--optim", "lion"}, {}, "it is AdamW's, and --optim is lion"},
      {{"--llm_int8_skip_modules", "pooler"},
       {"--lora_r", "8"},
       {"--lora_r", "8", "--load_in_8bit"},
       "it is of --load_in_8bit and --load_in_4bit, neither of which is given"},
      {{"--bnb_4bit_quant_type", "fp4"},
       {"--lora_r", "8"},
       {"--lora_r", "8", "--load_in_4bit"},
       "it is of --load_in_4bit, which is not given"},
      {{"--bnb_4bit_use_double_quant", "True"},
       {"--lora_r", "8", "--load_in_8bit"},
       {"--lora_r", "8", "--load_in_4bit"},
       "it is of --load_in_4bit, which is not given"},
      {{"--bnb_4bit_compute_dtype", "float32"},
       {},
       {"--lora_r", "8", "--load_in_4bit"},
       "it is of --load_in_4bit, which is not given"},
      {{"--logging_steps", "10"},
       {"--logging_strategy", "epoch"},
       {"--logging_strategy", "epoch", "--eval_strategy", "steps"},
       "--logging_strategy is epoch; steps logs every so many"},
      {{"--eval_steps", "10"},
       {},
       {"--eval_strategy", "steps"},
       "--eval_strategy is no; steps evaluates every so many"},
      {{"--eval_steps", "10"},
       {"--eval_strategy", "epoch"},
       {"--eval_strategy", "steps"},
       "--eval_strategy is epoch; steps evaluates every so many"},
      {{"--eval_delay", "2"},
       {},
       {"--eval_strategy", "epoch"},
       "nothing is evaluated while training: --eval_strategy steps or epoch does"},
      {{"--eval_on_start", "True"},
       {},
       {"--do_eval"},
       "no validation data is read: --do_eval or --eval_strategy does"},
      {{"--metric_for_best_model", "f1"},
       {"--do_eval"},
       {"--eval_strategy", "epoch"},
       "nothing is evaluated while training: --eval_strategy steps or epoch does"},
      {{"--greater_is_better", "True"},
       {},
       {"--metric_for_best_model", "f1", "--eval_strategy", "epoch"},
       "--metric_for_best_model is not given"},
      {{"--early_stopping_threshold", "0.1"},
       {"--eval_strategy", "epoch"},
       {"--eval_strategy", "epoch", "--early_stopping_patience", "2"},
       "--early_stopping_patience, which stops early, is not given"},
      {{"--save_steps", "10"},
       {"--save_strategy", "epoch"},
       {},
       "--save_strategy is epoch; steps saves every so many"},
      {{"--ignore_data_skip", "True"},
       {},
       {"--resume_from_checkpoint"},
       "the run begins anew: --resume_from_checkpoint is not given"},
  };
  return all;
}

TEST(IdleNotes, EachSettingIsNamedOnceWithItsReason) {
  for (const Case& one : cases()) {
    const Words words = joined(one.idle, one.more);
    SCOPED_TRACE(::testing::PrintToString(words));
    const std::vector<std::string> notes = idle_notes(parse(words).arguments);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0], one.idle[0] + " " + one.idle[1] + " has no effect: " + one.note);
  }
}

TEST(IdleNotes, NothingIsSaidWhereTheSettingCounts) {
  EXPECT_EQ(idle_notes(parse({}).arguments), Words());
  for (const Case& one : cases()) {
    const Words words = joined(one.idle, one.counts);
    EXPECT_EQ(idle_notes(parse(words).arguments), Words()) << ::testing::PrintToString(words);
  }
}

// A value that resolve_arguments filled in was not given by the user.
TEST(IdleNotes, FilledInSettingsGetNone) {
  for (const Words& words :
       {Words{"--eval_strategy", "epoch", "--save_strategy", "epoch", "--load_best_model_at_end"},
        Words{"--eval_strategy", "steps", "--logging_steps", "0", "--logging_strategy", "no", "--eval_steps",
              "5"},
        Words{"--eval_strategy", "steps"}}) {
    EXPECT_EQ(idle_notes(parse(words).arguments), Words()) << ::testing::PrintToString(words);
  }
}

}  // namespace
}  // namespace plimsoll
