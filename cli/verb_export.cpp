// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "cli/document.hpp"
#include "cli/formats/format.hpp"
#include "cli/output.hpp"
#include "cli/pieces.hpp"
#include "cli/syntax.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "cli/warnings.hpp"
#include "model/description/sections.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

Syntax export_syntax() {
  Syntax syntax(
      "export PROFILE... --to FORMAT [-o FILE] [--strict]",
      "Writes a profile in the form of another program, and on stderr what that form cannot say and what "
      "stands in. PROFILE is a file or the name of a published device; several are taken as one, as `merge` does.",
      {"gpuinfer export profile.yaml --to gpgpusim -o caches.config      options for GPGPU-Sim and Accel-Sim",
       "gpuinfer export gtx780 --to markdown --target L1tex              tables of one cache",
       "gpuinfer list formats                                            what FORMAT can be"});
  std::string formats;
  for (const ExportFormat& format : export_formats()) {
    formats += (formats.empty() ? "" : "|") + std::string(format.name);
  }
  syntax.value("to", formats.c_str(), "the form; `gpuinfer list formats` says what each is for (needed)")
      .repeatable("target", "T", "what stands under these only; may be repeated (default: all of the profile)")
      .flag("strict", "exit status 3 where something is lost or stands in; the output is written all the same")
      .flag("quiet", "nothing of that on stderr")
      .value("output,o", "FILE", "write there (default: to stdout)")
      .value("format", "yaml|json",
             "the text and the losses, with misses counted, as one document (default: the text alone)");
  return syntax;
}

namespace {

// The part of the profile under these targets, and the device itself.
model::DeviceDescription part_of(const model::DeviceDescription& profile, const std::vector<std::string>& targets) {
  std::set<std::string_view> sections;
  for (const std::string& target : targets) {
    sections.insert(section_of(target));
  }
  model::DeviceDescription part = profile;
  for (const auto& section : model::sections()) {
    section.keep_only(part, [&](std::string_view name) { return section.is_found_out() && sections.contains(name); });
  }
  std::erase_if(part.evidence, [&](const auto& entry) { return !sections.contains(entry.first); });
  return part;
}

Document document_of(const ExportFormat& format, const std::string& profile, const Exported& exported) {
  Document losses = Document::array();
  for (const ExportLoss& loss : exported.losses) {
    Document entry{{"where", loss.where}, {"what", loss.what}};
    for (const Replay& replay : loss.replays) {
      entry["replays"].push_back({{"loads", replay.loads},
                                  {"accesses", replay.accesses},
                                  {"described_misses", replay.described_misses},
                                  {"exported_misses", replay.exported_misses}});
    }
    losses.push_back(std::move(entry));
  }
  return {{"profile", profile}, {"to", format.name}, {"losses", losses}, {"text", exported.text}};
}

}  // namespace

ExitStatus verb_export(Arguments arguments) {
  const auto parsed = export_syntax().parse(arguments, 1, std::string::npos);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const auto to = parsed->text("to");
  if (!to) {
    throw InputError("--to: is missing; `gpuinfer list formats` has the names that it takes");
  }
  const ExportFormat& format = export_format(*to);
  const auto form_of_document = parsed->text("format");
  const Format form = format_from(form_of_document);
  const std::vector<std::string> asked = spelled_targets(parsed->list("target"));
  const std::vector<std::string> files = parsed->operands();
  const model::DeviceDescription profile = read_merged(files);
  const std::vector<std::string> targets = described_targets(profile, text_of_files(files), asked);
  Output output(parsed->text("output"));

  const bool whole = asked.empty() || stands_for_all(asked);
  const Exported exported = format.write(whole ? profile : part_of(profile, targets));
  output.stream() << (form_of_document ? to_text(document_of(format, text_of_files(files), exported), form)
                                       : exported.text);
  output.finish();
  if (!parsed->flag("quiet")) {
    for (const ExportLoss& loss : exported.losses) {
      note(to_text(loss));
    }
  }
  return parsed->flag("strict") && !exported.losses.empty() ? ExitStatus::unresolved : ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
