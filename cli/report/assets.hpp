// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// Files that are part of the program.
namespace gpuinfer::cli::report {

extern const std::string_view page_html;  // page.html: the page, with {{PLACES}} to be filled
extern const std::string_view page_css;   // page.css
extern const std::string_view page_js;    // page.js: values under the pointer, files of figures

}  // namespace gpuinfer::cli::report
