#!/usr/bin/env python3
"""Writes metrics_fixtures.inc: small inputs and the metrics that scikit-learn and SciPy compute for them.

    python3 src/metrics/testing/metrics_fixtures.py > src/metrics/testing/metrics_fixtures.inc
"""
import warnings

import numpy as np
import scipy
import scipy.stats
import sklearn
from sklearn import metrics

warnings.simplefilter("ignore")


def ints(values):
    return "{" + ", ".join(str(int(v)) for v in values) + "}"


def reals(values):
    return "{" + ", ".join(number(v) for v in values) + "}"


def number(value):
    return "kNan" if np.isnan(value) else repr(float(value))


def classification(name, classes, labels, predictions):
    f1 = lambda average: metrics.f1_score(labels, predictions, average=average, zero_division=0.0)
    values = [
        metrics.accuracy_score(labels, predictions),
        f1("binary") if classes == 2 else np.nan,
        f1("macro"),
        f1("weighted"),
        metrics.matthews_corrcoef(labels, predictions),
    ]
    print(f'    {{"{name}", {classes}, {ints(labels)}, {ints(predictions)}, {reals(values)}}},')


def regression(name, labels, predictions):
    labels, predictions = np.asarray(labels, np.float64), np.asarray(predictions, np.float64)
    values = [
        metrics.mean_squared_error(labels, predictions),
        scipy.stats.pearsonr(predictions, labels)[0],
        scipy.stats.spearmanr(predictions, labels)[0],
    ]
    print(f'    {{"{name}", {reals(labels)}, {reals(predictions)}, {reals(values)}}},')


def multi_label(name, classes, labels, predictions):
    f1 = lambda average: metrics.f1_score(labels, predictions, average=average, zero_division=0.0)
    values = [metrics.accuracy_score(labels, predictions), f1("micro"), f1("macro"), f1("weighted")]
    print(f'    {{"{name}", {classes}, {ints(labels.ravel())}, {ints(predictions.ravel())}, {reals(values)}}},')


def main():
    rng = np.random.default_rng(20260211)
    print(f"// Written by metrics_fixtures.py with scikit-learn {sklearn.__version__} and SciPy {scipy.__version__}.")
    print("// clang-format off")
    print("const std::vector<ClassificationCase> kClassificationCases = {")
    print("    // name, classes, labels, predictions, {accuracy, f1 binary, f1 macro, f1 weighted, matthews}")
    labels = rng.integers(0, 2, 40)
    classification("two classes", 2, labels, np.where(rng.random(40) < 0.7, labels, 1 - labels))
    classification("all right", 2, [0, 1, 1, 0], [0, 1, 1, 0])
    classification("all wrong", 2, [0, 1, 1, 0], [1, 0, 0, 1])
    classification("never predicts 1", 2, [0, 1, 1, 0, 1], [0, 0, 0, 0, 0])
    classification("only label 1", 2, [1, 1, 1], [1, 0, 1])
    classification("only class 0", 2, [0, 0, 0], [0, 0, 0])
    labels = rng.integers(0, 5, 60)
    classification("five classes", 5, labels, np.where(rng.random(60) < 0.6, labels, rng.integers(0, 5, 60)))
    classification("class 2 never occurs", 4, [0, 1, 3, 3, 1, 0], [0, 1, 3, 1, 1, 3])
    classification("class 2 only predicted", 3, [0, 1, 1, 0], [2, 1, 2, 0])
    print("};")
    print("const std::vector<RegressionCase> kRegressionCases = {")
    print("    // name, labels, predictions, {mse, pearson, spearman}")
    labels = rng.random(30) * 5
    regression("noisy", labels, labels + rng.normal(size=30))
    labels = np.round(rng.random(40) * 5 * 2) / 2
    regression("ties on both sides", labels, np.round(labels + rng.normal(size=40)))
    regression("falling", [1, 2, 3, 4], [8, 6, 4, 1])
    regression("cubed", [-2, -1, 0, 1, 2], [-8, -1, 0, 1, 8])
    regression("large offset", 1e9 + labels[:12], 1e9 + 2 * labels[:12] + rng.random(12))
    regression("constant prediction", [1, 2, 3], [2, 2, 2])
    regression("constant label", [2, 2, 2], [1, 2, 3])
    regression("two rows", [1, 2], [5, 3])
    print("};")
    print("const std::vector<MultiLabelCase> kMultiLabelCases = {")
    print("    // name, classes, labels, predictions, {accuracy, f1 micro, f1 macro, f1 weighted}")
    labels = (rng.random((12, 4)) < 0.4).astype(int)
    multi_label("four classes", 4, labels, np.where(rng.random((12, 4)) < 0.8, labels, 1 - labels))
    multi_label("no positives in one class", 3, np.array([[1, 0, 0], [0, 0, 1]]), np.array([[1, 0, 0], [1, 0, 1]]))
    multi_label("nothing predicted", 2, np.array([[1, 0], [1, 1]]), np.array([[0, 0], [0, 0]]))
    print("};")
    print("// clang-format on")


if __name__ == "__main__":
    main()
