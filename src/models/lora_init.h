// The base that belongs to an adapter whose initialisation changed it. PEFT's "pissa" and "olora" split a weight W into
// s B A and a rest, train B and A, and keep the rest as the base. Neither file contains the rest: a program that reads
// the adapter computes it again from W. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "models/lora.h"

namespace plimsoll {

// Replaces a weight w_NK by the rest that PEFT 0.21 computes for it:
// - PiSSA (Meng et al., arXiv 2404.02948): W - U_r S_r V_r^T, the weight without its r largest singular values. The rest
//   depends neither on the signs of singular vectors nor on the scale. It is computed as W (I - V V^T) with V from the
//   eigenvectors of W^T W, or of W W^T if W is wider than high.
// - OLoRA (Buyukakyuz, arXiv 2406.01775): W - s Q_r R_r with W = Q R. Q_r R_r is the projection of W onto its first r
//   columns, so signs do not matter either. It is computed with LAPACK's Householder reflections, which also define Q
//   for columns that depend linearly on others.
// All arithmetic is in double precision, so the result equals an exact computation rounded once; PEFT works in fp32.
// Requires: w.size() == rows * columns, config.r <= min(rows, columns), finite numbers. Cost: PiSSA about
// 8 min(rows, columns)^3 operations on one thread, OLoRA about 8 r rows columns.
void change_base(std::span<double> w_NK, int64_t rows, int64_t columns, const LoraConfig& config);

// Errors: kBadData if a weight of the base is smaller than the rank, which such an adapter cannot have been made for.
void check_base_change(const std::vector<LoraTarget>& targets, const LoraConfig& config);

}  // namespace plimsoll
