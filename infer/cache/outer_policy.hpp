// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/asking/claim.hpp"
#include "infer/asking/interrogator.hpp"
#include "model/device_description.hpp"
#include "model/replacement.hpp"

namespace gpuinfer::infer {

// The policy of a level behind a nearer one, of which all but the policy is known and proven: asked of single sets as
// that of a first level is (infer/policy/replacement_fit.hpp), with loads between that drive lines out of the nearer
// level, and then held to fresh loads of other sets. Sets that lose lines for which they have room hold something else
// as well, such as code of the probe; where these are many, no policy is claimed. Throws QuestionRefused, AskingEnded,
// DeviceError.
[[nodiscard]] Claim<model::Replacement> claim_outer_policy(Interrogator& asker, const model::CacheDescription& cache);

}  // namespace gpuinfer::infer
