// Tests the notes about settings that have no effect in combination with other settings: each must appear, and must not
// appear if the setting has an effect.
#include "arguments/argument_table.h"

#include <gtest/gtest.h>

#include "arguments/testing/parse_words.h"

namespace plimsoll {
namespace {

using test::parse;
using Words = std::vector<std::string>;

struct Case {
  Words idle;        // settings that have no effect in this case
  Words more;        // other settings, because of which those in `idle` have no effect
  Words counts;      // settings with which the settings in `idle` have an effect
  std::string note;  // the expected note after the name of the setting
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
       "with --dataset_name dummy; use --dummy_seq_length, which is 512"},
      {{"--max_eval_samples", "10"},
       {},
       {"--do_eval"},
       "without --validation_file, --do_eval or --eval_strategy"},
      {{"--max_predict_samples", "10"}, {}, {"--do_predict"}, "without --test_file or --do_predict"},
      {{"--overwrite_cache", "True"},
       {},
       {"--cache_dir", "tokens"},
       "without --cache_dir, because tokens are then not cached"},
      {{"--dummy_num_samples", "7"}, {}, {"--dataset_name", "dummy"}, "without --dataset_name dummy"},
      {{"--dummy_seq_length", "7"}, {}, {"--dataset_name", "dummy"}, "without --dataset_name dummy"},
      {{"--pipeline_schedule", "gpipe"}, {}, {"--pp_size", "2"}, "without --pp_size"},
      {{"--pp_chunks", "4"},
       {},
       {"--pp_size", "2", "--pipeline_schedule", "interleaved"},
       "without --pipeline_schedule interleaved"},
      {{"--num_train_epochs", "5"},
       {"--max_steps", "9"},
       {},
       "with --max_steps 9, which sets the length of the run"},
      {{"--data_seed", "7"},
       {"--train_sampling_strategy", "sequential"},
       {"--train_sampling_strategy", "group_by_length"},
       "with --train_sampling_strategy sequential, which keeps the order of the file"},
      {{"--warmup_steps", "0.1"},
       {"--lr_scheduler_type", "constant"},
       {"--lr_scheduler_type", "constant_with_warmup"},
       "with --lr_scheduler_type constant; use constant_with_warmup"},
      {{"--warmup_steps", "7"},
       {"--lr_scheduler_type", "reduce_lr_on_plateau", "--eval_strategy", "epoch"},
       {},
       "with --lr_scheduler_type reduce_lr_on_plateau"},
      {{"--adam_beta1", "0.5"},
       {"--optim", "sgd"},
       {"--optim", "lion"},
       "with --optim sgd; use --optim_args for its settings"},
      {{"--adam_beta2", "0.5"},
       {"--optim", "adafactor"},
       {"--optim", "adamw_8bit"},
       "with --optim adafactor; use --optim_args for its settings"},
      {{"--adam_epsilon", "1e-06"}, {"--optim", "lion"}, {}, "with --optim lion, only with AdamW"},
      {{"--llm_int8_skip_modules", "pooler"},
       {"--lora_r", "8"},
       {"--lora_r", "8", "--load_in_8bit"},
       "without --load_in_8bit or --load_in_4bit"},
      {{"--bnb_4bit_quant_type", "fp4"},
       {"--lora_r", "8"},
       {"--lora_r", "8", "--load_in_4bit"},
       "without --load_in_4bit"},
      {{"--bnb_4bit_use_double_quant", "True"},
       {"--lora_r", "8", "--load_in_8bit"},
       {"--lora_r", "8", "--load_in_4bit"},
       "without --load_in_4bit"},
      {{"--bnb_4bit_compute_dtype", "float32"},
       {},
       {"--lora_r", "8", "--load_in_4bit"},
       "without --load_in_4bit"},
      {{"--logging_steps", "10"},
       {"--logging_strategy", "epoch"},
       {"--logging_strategy", "epoch", "--eval_strategy", "steps"},
       "with --logging_strategy epoch; use --logging_strategy steps"},
      {{"--eval_steps", "10"},
       {},
       {"--eval_strategy", "steps"},
       "with --eval_strategy no; use --eval_strategy steps"},
      {{"--eval_steps", "10"},
       {"--eval_strategy", "epoch"},
       {"--eval_strategy", "steps"},
       "with --eval_strategy epoch; use --eval_strategy steps"},
      {{"--eval_delay", "2"}, {}, {"--eval_strategy", "epoch"}, "without --eval_strategy steps or epoch"},
      {{"--eval_on_start", "True"},
       {},
       {"--do_eval"},
       "without --validation_file, --do_eval or --eval_strategy"},
      {{"--metric_for_best_model", "f1"},
       {"--do_eval"},
       {"--eval_strategy", "epoch"},
       "without --eval_strategy steps or epoch"},
      {{"--greater_is_better", "True"},
       {},
       {"--metric_for_best_model", "f1", "--eval_strategy", "epoch"},
       "without --metric_for_best_model"},
      {{"--early_stopping_threshold", "0.1"},
       {"--eval_strategy", "epoch"},
       {"--eval_strategy", "epoch", "--early_stopping_patience", "2"},
       "without --early_stopping_patience"},
      {{"--save_steps", "10"},
       {"--save_strategy", "epoch"},
       {},
       "with --save_strategy epoch; use --save_strategy steps"},
      {{"--async_save", "True"},
       {"--save_strategy", "no"},
       {},
       "with --save_strategy no; use --save_strategy steps"},
      {{"--ignore_data_skip", "True"}, {}, {"--resume_from_checkpoint"}, "without --resume_from_checkpoint"},
  };
  return all;
}

TEST(IdleNotes, EachSettingIsNamedOnceWithItsReason) {
  for (const Case& one : cases()) {
    const Words words = joined(one.idle, one.more);
    SCOPED_TRACE(::testing::PrintToString(words));
    const std::vector<std::string> notes = idle_notes(parse(words).arguments);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0], one.idle[0] + " has no effect " + one.note);
  }
}

TEST(IdleNotes, NothingIsSaidWhereTheSettingCounts) {
  EXPECT_EQ(idle_notes(parse({}).arguments), Words());
  for (const Case& one : cases()) {
    const Words words = joined(one.idle, one.counts);
    EXPECT_EQ(idle_notes(parse(words).arguments), Words()) << ::testing::PrintToString(words);
  }
}

// A value that resolve_arguments() has filled in was not given by the user, so there must be no note about it.
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
