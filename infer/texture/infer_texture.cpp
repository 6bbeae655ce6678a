// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/texture/infer_texture.hpp"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "infer/asking/interrogator.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/cache/latency_levels.hpp"
#include "infer/texture/conclude_texture.hpp"
#include "infer/texture/texel_blocks.hpp"
#include "infer/texture/texel_tiles.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::TexelBlock;

constexpr std::array texture_leaves{"latency_cycles", "sector_texels", "line_texels", "levels"};

// The stages of one inference, in order; each writes the leaf that it settles into the finding.
class TextureInference {
 public:
  TextureInference(model::Answerer& device, const std::string& target, const Settings& settings)
      : asker_(device, target, settings), leaves_(asker_, finding_, texture_leaves) {
    const model::Raster& raster = *asker_.buffer().raster;
    finding_.texture = {.texel_bytes = raster.texel_bytes, .width = raster.width, .height = raster.height};
  }

  TextureFinding run() {
    static_cast<void>(leaves_.go_through([this] { find_all(); }));
    leaves_.close();
    return std::move(finding_);
  }

 private:
  void find_all() {
    asker_.report("hit and miss latencies", 0.01);
    LatencyLevels levels = find_latency_levels(asker_);
    if (!levels.cycles) {
      leaves_.give_up_rest(levels.reason);
      if (levels.warning) {
        finding_.warnings.emplace_back(*levels.warning);
      }
      return;
    }
    finding_.texture.latency_cycles = *levels.cycles;
    settle_latency(leaves_, levels);
    leaves_.go_on_with(device_.emplace(std::move(asker_), *std::move(levels.classifier)));
    if (device_->starts_flooded()) {
      // What floods the cache may lie in the sectors that are asked about: where is what is asked here.
      leaves_.give_up_rest("the cache is never empty on this device, and its texels cannot be told apart otherwise");
      return;
    }
    device_->report("texels of a sector", 0.1);
    device_->inquire("texels around one that was just loaded", "a sector is what one miss brings");
    settle("sector_texels", finding_.texture.sector_texels, find_sector_texels(*device_));
    if (finding_.texture.sector_texels) {
      device_->report("texels of a line", 0.5);
      device_->inquire("as many blocks of sectors as single sectors just overflow the cache",
                       "sectors of one line take room together");
      settle("line_texels", finding_.texture.line_texels, find_line_texels(*device_, *finding_.texture.sector_texels));
    }
    device_->report("where texels lie", 0.9);
    device_->inquire("where texels lie in memory", "the order of sectors and lines does not show in hits and misses");
    settle_levels(find_texel_tiles(*device_));
    device_->report("done", 1.0);
  }

  void settle_levels(const TexelTilesFit& fit) {
    device_->learned(fit.levels ? "tiles of " + std::to_string(fit.levels->size()) + " level(s)" : fit.reason);
    const LeafVerdict verdict = conclude_texel_levels(finding_.texture, fit);
    if (verdict.status == EvidenceStatus::resolved) {
      finding_.texture.levels = fit.levels;
    }
    leaves_.settle("levels", verdict, fit.tested);
  }

  void settle(const char* leaf, std::optional<TexelBlock>& value, const TexelBlockFit& fit) {
    device_->learned(fit.block ? model::to_string(*fit.block) + " texels" : fit.reason);
    value = fit.block;
    leaves_.settle(leaf, conclude_texel_block(fit), leaves_.questions());
  }

  Asker asker_;  // until levels are known
  std::optional<Interrogator> device_;
  TextureFinding finding_;
  Leaves leaves_;
};

}  // namespace

TextureFinding infer_texture(model::Answerer& device, const std::string& target, const Settings& settings) {
  return TextureInference(device, target, settings).run();
}

}  // namespace gpuinfer::infer
