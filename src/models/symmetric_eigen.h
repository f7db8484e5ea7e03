// Eigenvalues and eigenvectors of a real symmetric matrix, in double precision. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

struct SymmetricEigen {
  std::vector<double> values;   // [count]: the eigenvalues, from the largest to the smallest
  std::vector<double> vectors;  // [count, n]: row i is the eigenvector of values[i]; the rows are orthonormal
};

// Returns the `count` largest eigenvalues of the symmetric matrix a_NN with their vectors. The matrix is reduced to
// tridiagonal form with Householder reflections, and that form to diagonal form with implicit QL steps and Wilkinson's
// shift (Bowdler, Martin, Reinsch and Wilkinson, Numerische Mathematik 11, 1968; EISPACK's tred2 and tql2). The sign of a
// vector is arbitrary, and so is the basis of the vectors of equal eigenvalues. Errors of the values are a small multiple
// of n eps |a|. Requires: a.size() == n * n, finite numbers, 1 <= count <= n. Cost: about 8 n^3 operations on one thread.
SymmetricEigen largest_eigenpairs(std::vector<double> a_NN, int64_t n, int64_t count);

}  // namespace plimsoll
