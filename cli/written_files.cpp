// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/written_files.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "model/errors.hpp"
#include "probe/output_file.hpp"

namespace fs = std::filesystem;

namespace gpuinfer::cli {

namespace {

constexpr std::string_view journal_suffix = ".journal";

// By which two names of one file are the same. None: no regular file is there.
std::optional<fs::path> identity_of_existing(const std::string& name) {
  std::error_code error;
  if (!fs::is_regular_file(name, error)) {
    return std::nullopt;
  }
  fs::path identity = fs::canonical(name, error);
  return error ? std::nullopt : std::optional(identity);
}

void check_new_archive(const std::string& name) {
  if (name.ends_with(journal_suffix)) {
    throw InputError("--record: " + name + " would be taken for the journal of another archive; name another file");
  }
  if (!probe::destination_of(name).is_regular) {
    throw InputError("--record: " + name + " is a device or a pipe, and an archive is a file; name one");
  }
  std::error_code absent;
  if (fs::file_size(name, absent) > 0 && !absent) {
    throw InputError("--record: " + name + " is there already; go on with it by --resume, or name another file");
  }
}

// `recorded:run.h5` names a file behind a colon.
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names{text};
  for (std::size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1)) {
    names.push_back(text.substr(colon + 1));
  }
  return names;
}

std::string where(const FileWord& word) { return word.option.empty() ? "the command line" : word.option; }

}  // namespace

void check_written_files(std::span<const FileWord> written, std::span<const FileWord> read) {
  std::map<fs::path, FileWord> taken;
  const auto take = [&](const FileWord& word, const std::string& name) {
    std::error_code none;
    if (word.option == "--output" && fs::is_directory(name, none)) {
      return;  // who wants a file refuses it
    }
    const probe::Destination destination = probe::destination_of(name);
    if (!destination.is_regular) {
      return;  // several may write there
    }
    std::error_code error;
    const auto [other, is_new] = taken.emplace(fs::weakly_canonical(fs::absolute(destination.file), error), word);
    if (!is_new) {
      throw InputError(word.option + ": " + name + " is written by " + where(other->second) +
                       " as well; name another file");
    }
  };
  const bool resumes = std::ranges::any_of(written, [](const FileWord& word) { return word.option == "--resume"; });
  for (const FileWord& word : written) {
    std::string name = word.text;
    if (word.option == "--record" && resumes) {
      continue;  // the same archive
    }
    if (word.option == "--record") {
      check_new_archive(name);
    } else if (word.option == "--resume" && name.ends_with(journal_suffix)) {
      name.resize(name.size() - journal_suffix.size());
    }
    take(word, name);
    if (word.option == "--record" || word.option == "--resume") {
      for (const char* beside : {".journal", ".journal-journal"}) {
        take(word, name + beside);
      }
    }
  }
  for (const FileWord& word : read) {
    for (const std::string& name : names_in(word.text)) {
      const auto identity = identity_of_existing(name);
      const auto writer = identity ? taken.find(*identity) : taken.end();
      if (writer != taken.end()) {
        throw InputError(writer->second.option + ": " + name +
                         " is read as well, and would be lost; name another file");
      }
    }
  }
}

}  // namespace gpuinfer::cli
