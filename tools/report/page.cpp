// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <span>

#include "h5feed/config.hpp"
#include "h5feed/error.hpp"
#include "tools/program/sha256.hpp"
#include "tools/report/charts.hpp"
#include "tools/report/facts.hpp"
#include "tools/report/html.hpp"
#include "tools/report/page_texts.hpp"

namespace h5feed::cli {
namespace {

// Points of a line over time, tried from the first on until the page is small enough.
constexpr std::array<std::size_t, 7> kPoints = {160, 120, 80, 56, 40, 24, 12};

// Returns the source of a policy that allows one text alone.
std::string hash_source(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  const auto digest = hash.digest();
  std::array<unsigned char, 48> encoded{};
  const int length = EVP_EncodeBlock(encoded.data(), reinterpret_cast<const unsigned char*>(digest.data()),
                                     static_cast<int>(digest.size()));
  return fmt::format("'sha256-{}'", std::string(encoded.begin(), encoded.begin() + length));
}

std::string list_of(const std::vector<std::string>& texts) {
  if (texts.empty()) return {};
  std::string html = "<ul>";
  for (const std::string& text : texts) html += fmt::format("<li>{}</li>", escaped(text));
  return html + "</ul>";
}

std::string inputs_section(const std::vector<Input>& inputs) {
  std::string html = "<section><h2>Inputs</h2><ul class=\"inputs\">";
  for (const Input& input : inputs) {
    html += fmt::format(
        "<li><b>{}</b> <span class=\"kind\">{}</span><br><span class=\"path\">{}</span>{}</li>",
        escaped(input.label), name_of(input.kind), escaped(shortened(input.path, 200)), list_of(input.notes));
  }
  return html + "</ul></section>\n";
}

std::string settings_table(const std::vector<Input>& inputs, const std::vector<SettingRow>& rows,
                           const std::string& name) {
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table "
      "class=\"settings\"><thead><tr>"
      "<th scope=\"col\">setting</th>",
      name);
  for (const Input& input : inputs) html += fmt::format("<th scope=\"col\">{}</th>", escaped(input.label));
  html += "</tr></thead><tbody>";
  for (const SettingRow& row : rows) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", escaped(row.name));
    for (const auto& value : row.values) html += fmt::format("<td>{}</td>", value ? escaped(*value) : "–");
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string settings_section(const std::vector<Input>& inputs) {
  std::vector<SettingRow> differing, equal;
  for (SettingRow& row : settings_of(inputs))
    (row.differs(inputs) ? differing : equal).push_back(std::move(row));
  std::string html = "<section>";
  if (inputs.size() > 1) {
    html += "<h2>What differs</h2>";
    html += differing.empty() ? "<p>No setting that the inputs tell differs between them.</p>"
                              : settings_table(inputs, differing, "Settings that differ");
  } else {
    html += "<h2>Settings</h2>";
  }
  if (!equal.empty()) {
    html += fmt::format("<details><summary>{} ({})</summary>{}</details>",
                        inputs.size() > 1 ? "Other settings" : "All settings", equal.size(),
                        settings_table(inputs, equal, "Other settings"));
  }
  return html + "</section>\n";
}

std::string verdict_list(const std::vector<VerdictLine>& lines, const char* tag) {
  if (lines.empty()) return {};
  std::string html = fmt::format("<{}>", tag);
  for (const VerdictLine& line : lines) {
    html += fmt::format("<li>{}", escaped(line.text));
    if (!line.advice.empty()) html += "<p>Try:</p>" + list_of(line.advice);
    html += "</li>";
  }
  return html + fmt::format("</{}>", tag);
}

std::string verdict_section(const std::vector<Input>& inputs) {
  const Input* first = nullptr;
  std::string html = "<section><h2>Verdict</h2><div class=\"verdicts\">";
  for (const Input& input : inputs) {
    const InputVerdict verdict = verdict_of(input, first);
    if (first == nullptr && input.kind == Input::Kind::bench) first = &input;
    html += fmt::format("<article><h3>{}</h3>{}{}", escaped(input.label), verdict_list(verdict.lines, "ul"),
                        verdict_list(verdict.findings, "ol"));
    if (verdict.lines.empty() && verdict.findings.empty()) html += "<p>The input holds no verdict.</p>";
    html += "</article>";
  }
  return html + "</div></section>\n";
}

std::string charts_section(const char* title, const std::string& figures) {
  if (figures.empty()) return {};
  return fmt::format("<section><h2>{}</h2><div class=\"charts\">{}</div></section>\n", title, figures);
}

std::string figures_of(const std::vector<Chart>& charts) {
  std::string html;
  for (const Chart& chart : charts) {
    if (chart.has_values()) html += chart_html(chart);
  }
  return html;
}

std::string title_of(const std::vector<Input>& inputs) {
  std::string title = inputs.front().label;
  if (inputs.size() > 1)
    title +=
        inputs.size() == 2 ? " and " + inputs.back().label : fmt::format(" and {} more", inputs.size() - 1);
  return title;
}

std::string page_with(const std::vector<Input>& inputs, std::size_t points) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; script-src "
      "{}; "
      "base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>h5feed report: "
      "{}</title>\n<style>{}</style></head>\n"
      "<body><header><h1>h5feed report</h1><p>{}</p></header>\n<main>\n",
      hash_source(kPageStyle), hash_source(kPageScript), escaped(title_of(inputs)), kPageStyle,
      escaped(title_of(inputs)));
  html += inputs_section(inputs) + settings_section(inputs) + verdict_section(inputs);
  html += charts_section("Measured by bench", bench_figures(inputs));
  html += charts_section("Epochs of the loaders", figures_of(loader_charts(inputs, points)));
  html += charts_section("Watched by monitor", figures_of(monitor_charts(inputs, points)));
  html += fmt::format(
      "</main>\n<footer><p>Made by h5feed {} ({}).</p></footer>\n<script>{}</script></body></html>\n",
      H5FEED_VERSION, H5FEED_COMMIT, kPageScript);
  return html;
}

}  // namespace

std::string page_of(const std::vector<Input>& inputs) {
  std::string page;
  for (const std::size_t points : kPoints) {
    page = page_with(inputs, points);
    if (page.size() <= kMostPageBytes) return page;
  }
  throw OptionError(fmt::format("a page of these inputs would have {} KB, more than {}; give fewer inputs",
                                page.size() / 1000, kMostPageBytes / 1000));
}

}  // namespace h5feed::cli
