#include "run/model_source.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(ModelNames, ForeignArchitecturesAreKnownByTheirNames) {
  EXPECT_EQ(foreign_architecture("EleutherAI/gpt-neo-125m"), "GPT");
  EXPECT_EQ(foreign_architecture("gpt"), "GPT");
  EXPECT_EQ(foreign_architecture("facebook/xlm-roberta-xl"), "XLM-RoBERTa-XL");
  EXPECT_EQ(foreign_architecture("facebook/xlm-roberta-xxl"), "XLM-RoBERTa-XL");
  EXPECT_EQ(foreign_architecture("FacebookAI/xlm-mlm-en-2048"), "XLM");
  EXPECT_EQ(foreign_architecture("allenai/xlm-roberta-longformer-base"), "Longformer");
  EXPECT_EQ(foreign_architecture("microsoft/deberta-v3-base"), "DeBERTa");
  EXPECT_EQ(foreign_architecture("albert-base-v2"), "ALBERT");
  EXPECT_EQ(foreign_architecture("google-t5/t5-small"), "T5");
  EXPECT_EQ(foreign_architecture("google/flan-t5-base"), "T5");
  EXPECT_EQ(foreign_architecture("facebook/opt-125m"), "OPT");
  EXPECT_EQ(foreign_architecture("facebook/bart-base"), "BART");
  EXPECT_EQ(foreign_architecture("sentence-transformers/all-mpnet-base-v2"), "MPNet");
}

TEST(ModelNames, OtherSpellingsOfAPresetAreNoForeignArchitecture) {
  for (const char* name : {"gpt-2", "GPT_2", "gpt-2-medium", "distil-gpt2", "BERT_base_uncased"}) {
    EXPECT_EQ(foreign_architecture(name), "") << name;
    EXPECT_FALSE(similar_presets(name).empty()) << name;
  }
  EXPECT_EQ(similar_presets("gpt-2").front(), "gpt2");
}

TEST(ModelNames, NamesOfTheTrainedArchitecturesAreNotForeign) {
  for (const char* name : {"bert-base-uncased",
                           "google-bert/bert-large-cased",
                           "distilbert-base-uncased",
                           "google/electra-small-discriminator",
                           "sentence-transformers/all-MiniLM-L6-v2",
                           "prajjwal1/bert-tiny",
                           "dbmdz/bert-base-german-cased",
                           "nlptown/bert-base-multilingual",
                           "my/optimal-bert",
                           "org/phishing-bert",
                           "gpt2",
                           "openai-community/gpt2-xl",
                           "distilbert/distilgpt2",
                           "FacebookAI/xlm-roberta-base",
                           "distilroberta-base",
                           "cardiffnlp/twitter-roberta-base-sentiment",
                           "almanach/camembert-base",
                           "papluca/xlm-roberta-base-language-detection",
                           "llamas/bert-base-uncased",
                           "meta-llama/Llama-3.2-1B-Instruct",
                           "mistralai/Mistral-7B-v0.1",
                           "Qwen/Qwen3-0.6B-Base",
                           "answerdotai/ModernBERT-base",
                           "Alibaba-NLP/gte-modernbert-base",
                           "bert",
                           "t",
                           "a/b-t-c"}) {
    EXPECT_EQ(foreign_architecture(name), "") << name;
  }
}

TEST(ModelNames, ShortenedNamesSuggestPresets) {
  EXPECT_EQ(similar_presets("bert-large").front(), "bert-large-uncased");
  EXPECT_EQ(similar_presets("bert_base").front(), "bert-base-uncased");
  EXPECT_EQ(similar_presets("BERT-base").front(), "bert-base-uncased");
  EXPECT_EQ(similar_presets("google-bert/bert-large").front(), "bert-large-uncased");
  EXPECT_EQ(similar_presets("distilbert").front(), "distilbert-base-uncased");
  EXPECT_EQ(similar_presets("distillbert-base-uncased"), std::vector<std::string>{"distilbert-base-uncased"});
  EXPECT_EQ(similar_presets("roberta-bse"), std::vector<std::string>{"roberta-base"});
  EXPECT_EQ(similar_presets("bert-base-uncsaed"), std::vector<std::string>{"bert-base-uncased"});
  EXPECT_TRUE(similar_presets("bert-base-german").empty());
  EXPECT_TRUE(similar_presets("my-model").empty());
  EXPECT_TRUE(similar_presets("b").empty());
}

}  // namespace
}  // namespace plimsoll
