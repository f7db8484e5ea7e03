// Rows for language modelling: the documents of a corpus, in blocks of tokens. Every token of the documents is in exactly
// one block. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "io/data/dataset.h"

namespace plimsoll {

enum class BlockRule : uint8_t {
  // Concatenates all documents and cuts them after every block_size tokens, as group_texts in Hugging Face's run_clm does. A block is one
  // sequence, so its tokens attend to those of the documents before theirs. The last block may be shorter; run_clm drops it, and
  // processes each 1000 documents separately.
  kConcatenate,
  // Makes each document one sequence. A document that is longer than a block is cut into sequences of the size of a block; the last one may
  // be shorter. Sequences are packed into blocks from the longest to the shortest, each into the fullest block that has room for it (best
  // fit, as TRL's packing_strategy "bfd_split"). The sequences in a block are in the order of the documents, and the blocks are in the
  // order of their first sequences.
  kPack,
  // Makes each document a row, as Hugging Face's run_mlm does with --line_by_line, except for documents that have no token to predict.
  // Documents were already cut to block_size tokens when they were tokenized.
  kSeparate,
};

struct BlockOptions {
  int64_t block_size = 1024;
  BlockRule rule = BlockRule::kConcatenate;
  // Maximum number of blocks; all blocks after this number of blocks are dropped.
  std::optional<int64_t> max_blocks = {};
  // Selects the tokens to predict in masked language modelling. If absent, every token is predicted from those before it.
  std::optional<TokenMasking> masking = {};
};

// Conversations (documents with TypeUse::kTrained) are never divided or joined: each is a sequence of its own, cut to block_size tokens, as
// TRL's SFTTrainer cuts them. With kPack several conversations are packed into a row; with any other rule each conversation is a row. A
// conversation is left out if, after the cut, it has no trained token except perhaps its first one, which no token predicts.
//
// Returns the blocks as rows, in which the labels are the tokens themselves. Each row of `documents` is a document. The result shares the
// tokens of `documents`; documents without tokens are in no block. Requires: block_size >= 1. Errors: kBadData for 2^31 or more
// sequences. Cost: linear in the number of documents and blocks. Memory: 8 bytes per block; with kPack also 12 bytes per sequence, and 12
// more during the call; 12 bytes per row if some documents are left out.
Dataset make_blocks(const TokenSet& documents, const BlockOptions& options);

// Concatenates all documents and returns blocks of the resulting tokens that begin `stride` tokens apart, up to the block that contains the
// last token. In each block, only the tokens that no earlier block contains count as labels. Except in the first block, every label
// therefore has at least block_size - stride tokens before it. This is the sliding window of Hugging Face's page "Perplexity of
// fixed-length models". Requires: 1 <= stride <= block_size, BlockRule::kConcatenate, at least one token. Errors: as make_blocks(). Memory:
// the tokens of all blocks, which are copied.
Dataset make_overlapping_blocks(const TokenSet& documents, const BlockOptions& options, int64_t stride);

}  // namespace plimsoll
