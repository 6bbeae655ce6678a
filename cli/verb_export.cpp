// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <set>

#include "cli/document.hpp"
#include "cli/formats/accelsim.hpp"
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
      "export PROFILE... --to FORMAT [-o FILE] [--base DIR] [--strict]",
      "Writes a profile in the form of another program, and on stderr what that form cannot say and what "
      "stands in. PROFILE is a file or the name of a published device; several are taken as one, as `merge` does.",
      {"gpuinfer export profile.yaml --to gpgpusim -o caches.config      options for GPGPU-Sim and Accel-Sim",
       "gpuinfer export gpu.yaml --to accelsim --base SM7_QV100 -o my_gpu  a whole configuration over one of Accel-Sim",
       "gpuinfer export gtx780 --to markdown --target L1tex              tables of one cache",
       "gpuinfer list formats                                            what FORMAT can be"});
  syntax.operands(ValueKind::descriptions);
  std::string formats;
  for (const ExportFormat& format : export_formats()) {
    formats += (formats.empty() ? "" : "|") + std::string(format.name);
  }
  syntax.value("to", formats.c_str(), "the form; `gpuinfer list formats` says what each is for (needed)")
      .repeatable("target", target_value, "what stands under these only; may be repeated (default: all of the profile)")
      .value(
          "base", "DIR",
          "of accelsim: a folder with gpgpusim.config and trace.config, over which the profile is laid (default: none)")
      .value("simulator", "1|2", "of accelsim: the version of Accel-Sim that the base is of (default: 1)")
      .flag("strict", "exit status 3 where something is lost or stands in; the output is written all the same")
      .flag("quiet", "nothing of that on stderr")
      .value("output,o", written_file, "write there (default: to stdout); of accelsim with --base, a folder")
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

ExitStatus told(const Parsed& parsed, const std::vector<ExportLoss>& losses) {
  if (!parsed.flag("quiet")) {
    for (const ExportLoss& loss : losses) {
      note(to_text(loss));
    }
  }
  return parsed.flag("strict") && !losses.empty() ? ExitStatus::unresolved : ExitStatus::resolved;
}

// None unless it is asked for.
std::optional<AccelsimBase> accelsim_base(const Parsed& parsed, const ExportFormat& format) {
  const auto folder = parsed.text("base");
  const auto simulator = parsed.text("simulator");
  if ((folder || simulator) && format.name != "accelsim") {
    throw InputError("--base and --simulator: are of --to accelsim; leave them out");
  }
  if (simulator && *simulator != "1" && *simulator != "2") {
    throw InputError("--simulator: is 1 or 2, the version of Accel-Sim");
  }
  if (simulator && !folder) {
    throw InputError("--simulator: needs --base, a folder with a configuration of that version");
  }
  return folder ? std::optional(read_accelsim_base(*folder, simulator == "2" ? 2 : 1)) : std::nullopt;
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
  const bool whole = asked.empty() || stands_for_all(asked);
  const model::DeviceDescription part = whole ? profile : part_of(profile, targets);
  const auto base = accelsim_base(*parsed, format);
  const auto folder = parsed->text("output");
  if (base && folder && !form_of_document) {
    std::error_code none;
    if (std::filesystem::equivalent(*folder, parsed->text("base").value_or(""), none)) {
      throw InputError("-o " + *folder + ": is the base, which would be lost; name another folder");
    }
    const AccelsimConfiguration configuration = accelsim_configuration(part, base);
    write_accelsim(configuration, *folder);
    return told(*parsed, configuration.gpgpusim_config.losses);
  }
  Output output(folder);
  const Exported exported = base ? accelsim_configuration(part, base).gpgpusim_config : format.write(part);
  output.stream() << (form_of_document ? to_text(document_of(format, text_of_files(files), exported), form)
                                       : exported.text);
  output.finish();
  return told(*parsed, exported.losses);
}

}  // namespace gpuinfer::cli
