#include "io/ckpt/model_folder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll {
namespace {

using Names = std::vector<std::string>;

// Returns the names of the weights that a model reads. Each weight of the encoder has two alternative names: with the prefix "bert." and
// without it.
std::vector<Names> wanted() {
  std::vector<Names> all;
  for (const char* name : {"embeddings.word_embeddings.weight", "encoder.layer.0.attention.self.query.weight",
                           "encoder.layer.1.output.dense.bias", "pooler.dense.weight"}) {
    all.push_back({std::string("bert.") + name, name});
  }
  all.push_back({"classifier.weight"});
  return all;
}

Names plain() {
  Names names;
  for (const Names& spellings : wanted()) names.push_back(spellings.front());
  return names;
}

// Returns the names after removing the wrappers that find_unwrapping() finds.
Names unwrapped(const Names& stored) {
  const std::vector<std::string_view> views(stored.begin(), stored.end());
  const Unwrapping way = find_unwrapping(views, wanted(), "bert");
  EXPECT_EQ(way.removes_anything(), !describe_unwrapping(way, views).empty());
  Names names;
  for (const std::string& name : stored) names.push_back(way.apply(name));
  return names;
}

Names with_prefix(const std::string& prefix) {
  Names names = plain();
  for (std::string& name : names) name.insert(0, prefix);
  return names;
}

TEST(WrappedNames, AreReadWithoutTheirWrappers) {
  for (const char* prefix : {"_orig_mod.", "module.", "_orig_mod.module.", "module._orig_mod.", "model.",
                             "encoder.", "bert.", "backbone.", "net.model.", "_forward_module.",
                             "_fsdp_wrapped_module.", "state_dict.", "base_model.model.", "0."}) {
    EXPECT_EQ(unwrapped(with_prefix(prefix)), plain()) << prefix;
  }
}

TEST(WrappedNames, InnerWrappersAreAnywhere) {
  EXPECT_EQ(
      unwrapped({"bert._fsdp_wrapped_module.embeddings.word_embeddings.weight",
                 "model.bert.encoder.layer.0._orig_mod.attention.self.query.weight",
                 "model.classifier.weight",
                 "model.bert.encoder.layer.1._checkpoint_wrapped_module.output.dense.bias"}),
      (Names{"bert.embeddings.word_embeddings.weight", "bert.encoder.layer.0.attention.self.query.weight",
             "classifier.weight", "bert.encoder.layer.1.output.dense.bias"}));
}

TEST(WrappedNames, SentenceTransformersHoldAnEncoderWithoutPrefix) {
  EXPECT_EQ(unwrapped({"0.auto_model.embeddings.word_embeddings.weight", "0.auto_model.pooler.dense.weight",
                       "2.linear.weight"}),
            (Names{"embeddings.word_embeddings.weight", "pooler.dense.weight", "2.linear.weight"}));
}

// If only some of the names begin with the prefix, it must be removed from these, and the others must stay unchanged.
TEST(WrappedNames, AHeadOutsideTheWrapperKeepsItsName) {
  EXPECT_EQ(
      unwrapped({"encoder.bert.embeddings.word_embeddings.weight", "encoder.bert.pooler.dense.weight",
                 "classifier.weight"}),
      (Names{"bert.embeddings.word_embeddings.weight", "bert.pooler.dense.weight", "classifier.weight"}));
}

TEST(WrappedNames, NamesThatFitStayAsTheyAre) {
  const Names with_others{"bert.embeddings.word_embeddings.weight", "module.something",
                          "cls.predictions.bias", "encoder.layer.0.attention.self.query.weight"};
  EXPECT_EQ(unwrapped(plain()), plain());
  EXPECT_EQ(unwrapped(with_others), with_others);
}

// The prefix of another architecture must not be removed, because its weights would then be loaded into this model.
TEST(WrappedNames, OtherArchitecturesAreNoWrappers) {
  for (const char* prefix :
       {"roberta.", "albert.", "electra.", "distilbert.", "my_class.", "model.roberta."}) {
    Names names;
    for (const Names& spellings : wanted()) names.push_back(prefix + spellings.back());
    EXPECT_EQ(unwrapped(names), names) << prefix;
  }
}

TEST(WrappedNames, HostileNamesEndSoon) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "model.";
  EXPECT_EQ(unwrapped({deep, ".", "", "..", "module", "model."}),
            (Names{deep, ".", "", "..", "module", "model."}));
}

}  // namespace
}  // namespace plimsoll
