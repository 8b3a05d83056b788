// Operators that move elements, as regions_in_interpreter_test.cc runs them.
#include "tests/runtime/region_check.h"

namespace kiln {
namespace {

using namespace kiln::testing;
using graph::Attributes;
using graph::Graph;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

Attributes mode(const char* name) { return {{"mode", std::string(name)}}; }

TEST(Movement, PadsEveryMode) {
  for (const char* name : {"constant", "edge", "reflect", "wrap"}) {
    SCOPED_TRACE(name);
    check([&](Graph& g) {
      const ValueId x = symbolic_input(g, {4, 5});
      const ValueId pads = graph::integers(g, {0, 1, 2, 0, 2, 3});
      const ValueId cropped = graph::integers(g, {0, -1, 2, 0, -2, -3});
      const ValueId far = graph::integers(g, {0, 9, 0, 0, 11, 0});
      g.outputs = {g.add(OpKind::Pad, {x, pads}, mode(name)), g.add(OpKind::Pad, {x, cropped}, mode(name)),
                   g.add(OpKind::Relu, {g.add(OpKind::Pad, {x, far}, mode(name))})};
    });
  }
}

TEST(Movement, PadsWithValuesAxesAndUnknownExtents) {
  check([](Graph& g) {
    const graph::Dim n = symbol(g, "n");
    const ValueId x = add_input(g, DType::F32, Shape{2, n, 3}, "x");
    const ValueId whole = add_input(g, DType::I64, Shape{n, 2}, "i");
    const ValueId half = g.add_constant(Tensor::from<float>(DType::F32, {}, std::array{-0.5F}));
    const ValueId nine = g.add_constant(Tensor::from_integer(-9));
    const ValueId size = g.add(OpKind::Shape, {x}, {{"start", graph::number(1)}, {"end", graph::number(2)}});
    const ValueId by_size =
        g.add(OpKind::Concat, {size, graph::integers(g, {1})}, {{"axis", graph::number(0)}});
    g.outputs = {
        g.add(OpKind::Pad, {x, graph::integers(g, {2, 1}), half, graph::integers(g, {-2})}),
        g.add(OpKind::Pad, {whole, graph::integers(g, {1, 1, 1, 0}), nine}),
        g.add(OpKind::Pad, {x, by_size, half, graph::integers(g, {2})}),
        g.add(OpKind::Pad, {x, graph::integers(g, {-1, -2}), ValueId::none(), graph::integers(g, {2})}),
    };
  });
}

TEST(Movement, PadsBetweenConvolutions) {
  check(
      [](Graph& g) {
        const ValueId x = symbolic_input(g, {3, 6, 5});
        ValueId y = g.add(OpKind::Conv, {x, random_weights(g, {8, 3, 3, 3}, 1)});
        y = g.add(OpKind::Pad, {y, graph::integers(g, {0, 0, 1, 2, 0, 4, 2, 1})});
        g.outputs = {g.add(OpKind::Conv, {y, random_weights(g, {5, 12, 2, 2}, 2)})};
      },
      false, {1, 2});
}

TEST(Movement, DepthAndSpace) {
  for (const char* name : {"DCR", "CRD"}) {
    check([&](Graph& g) {
      const ValueId x = symbolic_input(g, {12, 3, 5});
      Attributes block = mode(name);
      block["blocksize"] = graph::number(2);
      const ValueId y = g.add(OpKind::DepthToSpace, {x}, block);
      g.outputs = {
          y, g.add(OpKind::SpaceToDepth, {g.add(OpKind::Relu, {y})}, {{"blocksize", graph::number(2)}})};
    });
  }
}

TEST(Movement, TilesRepeat) {
  check([](Graph& g) {
    const graph::Dim n = symbol(g, "n");
    const ValueId x = add_input(g, DType::F32, Shape{n, 1, 3}, "x");
    const ValueId size = g.add(OpKind::Shape, {x}, {{"end", graph::number(1)}});
    const ValueId repeats =
        g.add(OpKind::Concat, {graph::integers(g, {1, 2}), size}, {{"axis", graph::number(0)}});
    g.outputs = {g.add(OpKind::Tile, {x, graph::integers(g, {2, 3, 1})}),
                 g.add(OpKind::Tile, {x, graph::integers(g, {1, 1, 4})}),
                 g.add(OpKind::Tile, {x, graph::integers(g, {1, 1, 1})}),
                 g.add(OpKind::Tile, {x, graph::integers(g, {1, 0, 1})}), g.add(OpKind::Tile, {x, repeats})};
  });
}

ValueId scales(Graph& g, std::vector<float> values) { return graph::floats(g, std::move(values)); }

TEST(Movement, ResizesNearest) {
  for (const char* coordinates : {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"}) {
    for (const char* rounding : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
      SCOPED_TRACE(std::string(coordinates) + " " + rounding);
      check(
          [&](Graph& g) {
            const ValueId x = symbolic_input(g, {2, 3, 5});
            const Attributes by{{"coordinate_transformation_mode", std::string(coordinates)},
                                {"nearest_mode", std::string(rounding)}};
            const ValueId none = ValueId::none();
            g.outputs = {g.add(OpKind::Resize, {x, none, scales(g, {1, 1, 2, 3})}, by),
                         g.add(OpKind::Resize, {x, none, scales(g, {1, 1, 0.6F, 2.5F})}, by),
                         g.add(OpKind::Neg, {g.add(OpKind::Resize, {x, none, scales(g, {1, 1, 1, 2})}, by)})};
          },
          false, {1, 2});
    }
  }
}

TEST(Movement, RepeatsUnknownExtents) {
  check([](Graph& g) {
    const graph::Dim n = symbol(g, "n");
    const ValueId x = add_input(g, DType::F32, Shape{2, n, 3}, "x");
    g.outputs = {g.add(OpKind::Resize, {x, ValueId::none(), scales(g, {1, 2, 4})})};
  });
}

TEST(Movement, ResizesLinearly) {
  for (const char* coordinates : {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"}) {
    SCOPED_TRACE(coordinates);
    check(
        [&](Graph& g) {
          const ValueId x = symbolic_input(g, {3, 4, 5});
          Attributes by = mode("linear");
          by["coordinate_transformation_mode"] = std::string(coordinates);
          Attributes spatial = by;
          spatial["axes"] = graph::list({2, 3});
          g.outputs = {g.add(OpKind::Resize, {x, ValueId::none(), scales(g, {1, 1, 2, 2})}, by),
                       g.add(OpKind::Resize,
                             {x, ValueId::none(), ValueId::none(), graph::integers(g, {3, 11})}, spatial)};
        },
        false, {1, 3});
  }
}

TEST(Movement, ResizesBetweenConvolutions) {
  check(
      [](Graph& g) {
        const ValueId x = symbolic_input(g, {3, 4, 4});
        const ValueId y = g.add(OpKind::Conv, {x, random_weights(g, {8, 3, 1, 1}, 1)});
        const ValueId up = g.add(OpKind::Resize, {y, ValueId::none(), scales(g, {1, 1, 2, 2})});
        const ValueId both = g.add(OpKind::Concat, {up, up}, {{"axis", graph::number(1)}});
        g.outputs = {g.add(OpKind::Conv, {both, random_weights(g, {5, 16, 3, 3}, 2)})};
      },
      false, {1, 2});
}

}  // namespace
}  // namespace kiln
