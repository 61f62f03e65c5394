// SPDX-License-Identifier: Apache-2.0
#include "store/checks/old_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace h5feed {
namespace {

// Signature, kind, level, number of entries, addresses of the neighbours; then keys and children in turn,
// with a key at both ends.
constexpr std::size_t kHeadBytes = 8;

struct OldNode {
  unsigned level = 0;
  std::uint64_t entries = 0;
};

class OldTreeWalk {
 public:
  OldTreeWalk(const MetadataBytes& bytes, const OldTree& tree, const OldTreeVisit& visit)
      : bytes_(bytes), tree_(tree), visit_(visit) {}

  // Descends level by level, so that memory is bounded by the nodes that the file can hold.
  std::string run(std::uint64_t root) {
    const std::optional<OldNode> top = node_at(root);
    if (!top) return {};
    std::vector<std::uint64_t> nodes = {root};
    for (unsigned level = top->level;; --level) {
      std::vector<std::uint64_t> children;
      for (const std::uint64_t node : nodes) {
        const std::optional<OldNode> found = node_at(node);
        if (!found) continue;  // libhdf5 says so when it comes there
        if (found->level != level) {
          return fmt::format(
              "the B-tree at byte {} has a node of level {} at byte {}, where level {} belongs", root,
              found->level, node, level);
        }
        if (level > 0 || visit_.leaf_children != nullptr || visit_.check_key) {
          if (std::string damage = visit_node(node, found->entries, children); !damage.empty()) return damage;
        }
        if (children.size() > bytes_.left(0) / 8)  // Bytes of an empty symbol table; nodes have more
          return fmt::format("the B-tree at byte {} has more nodes than the file has room for", root);
      }
      if (level == 0) {
        if (visit_.leaf_children != nullptr) *visit_.leaf_children = std::move(children);
        return {};
      }
      std::ranges::sort(children);
      if (const auto twice = std::ranges::adjacent_find(children); twice != children.end())
        return fmt::format("the B-tree at byte {} has the node at byte {} twice", root, *twice);
      nodes = std::move(children);
    }
  }

 private:
  std::optional<OldNode> node_at(std::uint64_t address) const {
    const std::vector<std::byte> head = bytes_.head(address, "TREE", kHeadBytes);
    if (head.empty() || number_in(head, 4, 1) != tree_.kind) return std::nullopt;
    return OldNode{static_cast<unsigned>(number_in(head, 5, 1)), number_in(head, 6, 2)};
  }

  std::string visit_node(std::uint64_t node, std::uint64_t entries,
                         std::vector<std::uint64_t>& children) const {
    const std::size_t first = kHeadBytes + 2 * bytes_.address_bytes();
    const std::size_t step = tree_.key_bytes + bytes_.address_bytes();
    const std::vector<std::byte> body =
        bytes_.read(node, first + static_cast<std::size_t>(entries) * step + tree_.key_bytes);
    const auto check_key = [&](std::size_t at) {
      if (!visit_.check_key || at + tree_.key_bytes > body.size()) return std::string();
      return visit_.check_key(std::span(body).subspan(at, tree_.key_bytes));
    };
    std::size_t at = first;
    for (; at + step <= body.size() && entries > 0; at += step, --entries) {
      if (std::string damage = check_key(at); !damage.empty()) return damage;
      const std::uint64_t child = bytes_.address_in(body, at + tree_.key_bytes);
      if (bytes_.left(child) > 0) children.push_back(child);
    }
    return at == first ? "" : check_key(at);
  }

  const MetadataBytes& bytes_;
  const OldTree& tree_;
  const OldTreeVisit& visit_;
};

}  // namespace

std::string old_tree_damage(const MetadataBytes& bytes, const OldTree& tree, std::uint64_t root,
                            const OldTreeVisit& visit) {
  return OldTreeWalk(bytes, tree, visit).run(root);
}

}  // namespace h5feed
