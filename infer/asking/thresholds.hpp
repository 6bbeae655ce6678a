// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The limits behind the word `resolved`, each with its calculation. Limits that only decide how long to ask stand where
// they are used.
namespace gpuinfer::infer {

// Of hits, and of misses: the share that may be read as the other. A reading then has a log likelihood ratio of
// ln(0.98 / 0.02) = 3.9 at least, so two that agree are conclusive, and both are wrong once in 2,500 times.
inline constexpr double most_misread = 0.02;

// Latencies that belong to neither level: if more do, the levels are not what they were taken for.
inline constexpr double most_outliers = most_misread;

// A sum of log likelihood ratios that is smaller leaves the matter open: ln(100), odds of a hundred to one.
inline constexpr double conclusive_log_ratio = 4.6;

// How often a verdict that single accesses decide may be wrong: of a million such verdicts, one.
inline constexpr double wrong_verdict = 1e-6;

// A description is refuted when its misreads, or miss counts, or victims are less probable than this. A true one is
// refuted so once in 100 times; each test is made twice, with other questions, so once in 10,000.
inline constexpr double least_p_value = 0.01;

// Of accesses that were voted on, the share that must be predicted. Votes are wrong once in a million times, so of
// 20,000 accesses 0.02 are expected to differ and 20 may: a description that is wrong about one access in 500 fails.
inline constexpr double least_voted_agreement = 0.999;

// The confidence with which departures from a deterministic description are excluded.
inline constexpr double excluded_at = 0.99;

// Loads of one set that show other lines than are predicted: by chance a stretch of them speaks so strongly once in
// e^14 = 1.2 million loads at most (Wald 1945), and some 50,000 are judged. Two misreads that few are do not suffice.
inline constexpr double departure_log_ratio = 14;

// Of a load that is read otherwise than predicted every time it is asked: ln(10^9), since each of many thousands may
// be. Three readings of crisp levels say as much, five where one in fifty is misread.
inline constexpr double repeated_log_ratio = 20.7;

// What fewer trials than eight could have refuted is not resolved, by Laplace's rule of succession.
inline constexpr double least_confidence = 0.9;

// A policy of which less frequent departures are excluded is not resolved, unless misreads hide them.
inline constexpr double most_departures = 1.0 / 200;

}  // namespace gpuinfer::infer
