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

TEST(Movement, TilesRepeatManyAxes) {
  check(
      [](Graph& g) {
        const ValueId x = symbolic_input(g, {2, 3, 1, 2});
        g.outputs = {g.add(OpKind::Tile, {x, graph::integers(g, {2, 3, 2, 4, 2})}),
                     g.add(OpKind::Tile, {x, graph::integers(g, {1, 3, 1, 1, 2})})};
      },
      false, {1, 3});
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

TEST(Movement, ResizesByCubesCropsAndFilters) {
  for (const char* coordinates : {"half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"}) {
    for (const std::int64_t exclude : {0, 1}) {
      for (const std::int64_t antialias : {0, 1}) {
        SCOPED_TRACE(coordinates);
        check(
            [&](Graph& g) {
              const ValueId x = symbolic_input(g, {2, 6, 7});
              Attributes by = mode("cubic");
              by["coordinate_transformation_mode"] = std::string(coordinates);
              by["exclude_outside"] = exclude;
              by["antialias"] = antialias;
              by["cubic_coeff_a"] = -0.5;
              const ValueId none = ValueId::none();
              g.outputs = {g.add(OpKind::Resize, {x, none, scales(g, {1, 1, 0.6F, 2})}, by)};
              by["mode"] = std::string("linear");
              g.outputs.push_back(g.add(OpKind::Resize, {x, none, scales(g, {1, 1, 0.4F, 1.3F})}, by));
            },
            false, {1, 2});
      }
    }
  }
}

TEST(Movement, ResizesAnInfinityWithoutNan) {
  check(
      [](Graph& g) {
        const ValueId x = symbolic_input(g, {4, 5});
        const ValueId huge = g.add(OpKind::Div, {x, g.add(OpKind::Floor, {g.add(OpKind::Abs, {x})})});
        for (const char* name : {"linear", "cubic"}) {
          Attributes by = mode(name);
          by["coordinate_transformation_mode"] = std::string("asymmetric");
          g.outputs.push_back(g.add(OpKind::Resize, {huge, ValueId::none(), scales(g, {1, 1, 2})}, by));
        }
      },
      false, {2});
}

TEST(Movement, CropsAndResizes) {
  for (const char* name : {"nearest", "linear", "cubic"}) {
    SCOPED_TRACE(name);
    check(
        [&](Graph& g) {
          const ValueId x = symbolic_input(g, {4, 6});
          Attributes by = mode(name);
          by["coordinate_transformation_mode"] = std::string("tf_crop_and_resize");
          by["extrapolation_value"] = 10.0;
          Attributes last = by;
          last["axes"] = graph::list({-1});
          const ValueId none = ValueId::none();
          g.outputs = {
              g.add(OpKind::Resize,
                    {x, graph::floats(g, {0, 0.4F, 0.6F, 1, 1.2F, 1.7F}), scales(g, {1, 0.8F, 1.5F})}, by),
              g.add(OpKind::Resize, {x, graph::floats(g, {0.9F, -0.2F}), none, graph::integers(g, {5})},
                    last)};
        },
        false, {1, 2});
  }
}

TEST(Movement, ResizesKeepingTheAspect) {
  for (const char* policy : {"not_larger", "not_smaller"}) {
    for (const char* name : {"nearest", "linear"}) {
      check(
          [&](Graph& g) {
            const ValueId x = symbolic_input(g, {4, 6});
            Attributes by = mode(name);
            by["keep_aspect_ratio_policy"] = std::string(policy);
            by["axes"] = graph::list({1, 2});
            const ValueId none = ValueId::none();
            g.outputs = {g.add(OpKind::Resize, {x, none, none, graph::integers(g, {7, 8})}, by)};
          },
          false, {1, 2});
    }
  }
}

TEST(Movement, ResizesOtherTypes) {
  for (const DType dtype : {DType::F16, DType::BF16, DType::I32, DType::I64}) {
    check(
        [&](Graph& g) {
          // Whole numbers, and weights that are eighths: exact in every type.
          const auto to = [&](ValueId x, DType type) {
            return g.add(OpKind::Cast, {x}, {{"to", static_cast<std::int64_t>(type)}});
          };
          const ValueId x = to(symbolic_input(g, {4, 6}, DType::I64), dtype);
          const ValueId none = ValueId::none();
          g.outputs = {g.add(OpKind::Resize, {x, none, scales(g, {1, 2, 4})}, mode("linear")),
                       g.add(OpKind::Resize, {x, none, scales(g, {1, 2, 1.5F})}, mode("nearest"))};
        },
        false, {2});
  }
}

TEST(Movement, PadsWithAValueThatVaries) {
  for (const DType dtype : {DType::F32, DType::F16, DType::I64}) {
    check([&](Graph& g) {
      const ValueId x = symbolic_input(g, {4, 5}, dtype);
      const ValueId value = add_input(g, dtype, Shape{}, "value");
      const ValueId one = add_input(g, dtype, Shape{1}, "one");
      const ValueId size = g.add(OpKind::Shape, {x}, {{"end", graph::number(1)}});
      const ValueId by_size =
          g.add(OpKind::Concat, {size, graph::integers(g, {2})}, {{"axis", graph::number(0)}});
      g.outputs = {g.add(OpKind::Pad, {x, graph::integers(g, {0, 1, 2, 0, 2, 3}), value}),
                   g.add(OpKind::Pad, {x, graph::integers(g, {-1, -1, 2, 1, 2, -3}), one}),
                   g.add(OpKind::Pad, {x, by_size, value, graph::integers(g, {-1})})};
    });
  }
}

TEST(Movement, CropsAndPadsToTheCentre) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {4, 7});
    g.outputs = {
        g.add(OpKind::CenterCropPad, {x, graph::integers(g, {7, 4})}, {{"axes", graph::list({1, 2})}}),
        g.add(OpKind::CenterCropPad, {x, graph::integers(g, {10, 1})}, {{"axes", graph::list({-1, -2})}})};
  });
}

// Random integers of a test are 0 to 9.
ValueId index_input(Graph& g, Shape shape, const char* name, DType dtype = DType::I64) {
  return add_input(g, dtype, std::move(shape), name);
}

TEST(Movement, GathersElements) {
  for (const DType dtype : {DType::F32, DType::F16, DType::I64, DType::I1}) {
    check([&](Graph& g) {
      const graph::Dim n = symbol(g, "n");
      const ValueId x = add_input(g, dtype, Shape{n, 10, 11}, "x");
      const ValueId rows = index_input(g, {n, 3, 11}, "rows");
      const ValueId columns = index_input(g, {n, 7, 2}, "columns", DType::I32);
      const ValueId ten = g.add_constant(Tensor::from<std::int32_t>(DType::I32, {}, std::array{10}));
      const ValueId back = g.add(OpKind::Sub, {columns, ten});
      const ValueId turned = g.add(OpKind::Transpose, {x}, {{"perm", graph::list({1, 2, 0})}});
      const ValueId turned_rows = g.add(OpKind::Transpose, {rows}, {{"perm", graph::list({1, 2, 0})}});
      g.outputs = {g.add(OpKind::GatherElements, {x, rows}, {{"axis", graph::number(1)}}),
                   g.add(OpKind::GatherElements, {x, columns}, {{"axis", graph::number(-1)}}),
                   g.add(OpKind::GatherElements, {x, back}, {{"axis", graph::number(2)}}),
                   g.add(OpKind::GatherElements, {turned, turned_rows}, {{"axis", graph::number(0)}})};
      if (dtype == DType::F32) g.outputs.push_back(g.add(OpKind::Relu, {g.outputs[0]}));
    });
  }
}

TEST(Movement, GathersAndScattersElementsOfUnrelatedExtents) {
  check(
      [](Graph& g) {
        const graph::Dim n = symbol(g, "n"), m = symbol(g, "m");
        const ValueId x = add_input(g, DType::F32, Shape{n, 10, m}, "x");
        const ValueId i = index_input(g, {m, 4, n}, "i");
        g.outputs = {g.add(OpKind::GatherElements, {x, i}, {{"axis", graph::number(1)}}),
                     g.add(OpKind::ScatterElements, {x, i, add_input(g, DType::F32, Shape{m, 4, n}, "u")},
                           {{"axis", graph::number(1)}})};
      },
      false, {4});
}

TEST(Movement, GathersRows) {
  check([](Graph& g) {
    const graph::Dim n = symbol(g, "n");
    const ValueId x = add_input(g, DType::F32, Shape{10, 11, 5}, "x");
    const ValueId batch = add_input(g, DType::F32, Shape{n, 12, 3, 4}, "batch");
    const Attributes batched{{"batch_dims", graph::number(1)}};
    g.outputs = {
        g.add(OpKind::GatherND, {x, index_input(g, {n, 1}, "one")}),
        g.add(OpKind::GatherND, {x, index_input(g, {2, n, 2}, "two")}),
        g.add(OpKind::Neg, {g.add(OpKind::GatherND, {batch, index_input(g, {n, 7, 1}, "rows")}, batched)}),
        g.add(OpKind::GatherND, {batch, index_input(g, {n, 1}, "row")}, batched)};
  });
}

TEST(Movement, ReversesSequences) {
  check([](Graph& g) {
    const graph::Dim n = symbol(g, "n");
    const ValueId lengths = index_input(g, {n}, "lengths");
    const ValueId x = add_input(g, DType::F32, Shape{n, 9, 4}, "x");
    const ValueId plane = add_input(g, DType::I64, Shape{11, n}, "plane");
    const Attributes batch_first{{"batch_axis", graph::number(0)}, {"time_axis", graph::number(1)}};
    g.outputs = {g.add(OpKind::ReverseSequence, {x, lengths}, batch_first),
                 g.add(OpKind::ReverseSequence, {plane, lengths})};
  });
}

TEST(Movement, ScattersRowsInOrder) {
  for (const char* name : {"none", "add", "mul", "max", "min"}) {
    SCOPED_TRACE(name);
    const Attributes reduction{{"reduction", std::string(name)}};
    check([&](Graph& g) {
      const graph::Dim n = symbol(g, "n");
      const ValueId x = add_input(g, DType::F32, Shape{10, 11, n}, "x");
      const ValueId whole = add_input(g, DType::I64, Shape{12, 10}, "whole");
      g.outputs = {
          g.add(OpKind::ScatterND,
                {x, index_input(g, {5, 2}, "two"), add_input(g, DType::F32, Shape{5, n}, "u")}, reduction),
          g.add(OpKind::ScatterND,
                {x, index_input(g, {2, 3, 1}, "one"), add_input(g, DType::F32, Shape{2, 3, 11, n}, "v")},
                reduction),
          g.add(OpKind::ScatterND,
                {whole, index_input(g, {n, 2}, "all"), add_input(g, DType::I64, Shape{n}, "w")}, reduction)};
    });
  }
}

TEST(Movement, ScattersElementsInOrder) {
  for (const char* name : {"none", "add", "mul", "max", "min"}) {
    SCOPED_TRACE(name);
    check([&](Graph& g) {
      const graph::Dim n = symbol(g, "n");
      const ValueId x = add_input(g, DType::F32, Shape{10, n, 11}, "x");
      const ValueId y = g.add(OpKind::Transpose, {x}, {{"perm", graph::list({2, 0, 1})}});
      const auto by = [&](std::int64_t axis) {
        return Attributes{{"axis", graph::number(axis)}, {"reduction", std::string(name)}};
      };
      g.outputs = {
          g.add(OpKind::ScatterElements,
                {x, index_input(g, {23, n, 5}, "i"), add_input(g, DType::F32, Shape{23, n, 5}, "u")}, by(0)),
          g.add(OpKind::ScatterElements,
                {x, index_input(g, {3, n, 17}, "j", DType::I32),
                 add_input(g, DType::F32, Shape{3, n, 17}, "v")},
                by(-1)),
          g.add(OpKind::ScatterElements,
                {y, index_input(g, {7, 2, n}, "k"), add_input(g, DType::F32, Shape{7, 2, n}, "w")}, by(0))};
    });
  }
}

TEST(Movement, ScattersIntoPartsOfAConcat) {
  check([](Graph& g) {
    const graph::Dim n = symbol(g, "n");
    const ValueId x = add_input(g, DType::F32, Shape{n, 10}, "x");
    const ValueId y = g.add(OpKind::ScatterElements,
                            {x, index_input(g, {n, 4}, "i"), add_input(g, DType::F32, Shape{n, 4}, "u")},
                            {{"axis", graph::number(1)}});
    g.outputs = {g.add(OpKind::Concat, {g.add(OpKind::Relu, {x}), y}, {{"axis", graph::number(1)}})};
  });
}

TEST(Movement, KeepsTriangles) {
  for (const std::int64_t upper : {0, 1}) {
    const Attributes half{{"upper", upper}};
    for (const DType dtype : {DType::F32, DType::F16, DType::I64, DType::I1}) {
      check([&](Graph& g) {
        const graph::Dim n = symbol(g, "n");
        const ValueId x = add_input(g, dtype, Shape{2, 4, 7}, "x");
        const ValueId open = add_input(g, dtype, Shape{n, n}, "open");
        const ValueId k = add_input(g, DType::I64, Shape{1}, "k");
        g.outputs = {g.add(OpKind::Trilu, {x}, half),
                     g.add(OpKind::Trilu, {x, k}, half),
                     g.add(OpKind::Trilu, {x, graph::scalar(g, -2)}, half),
                     g.add(OpKind::Trilu, {x, graph::scalar(g, INT64_MAX)}, half),
                     g.add(OpKind::Trilu, {x, graph::scalar(g, INT64_MIN)}, half),
                     g.add(OpKind::Trilu, {open, graph::scalar(g, 1)}, half)};
      });
    }
  }
}

TEST(Movement, MakesDiagonalsRangesAndRepetitions) {
  check([](Graph& g) {
    const graph::Dim n = symbol(g, "n");
    const ValueId x = add_input(g, DType::I32, Shape{4, 6}, "x");
    const ValueId open = add_input(g, DType::F32, Shape{n, 70}, "open");
    const auto to = [](DType dtype, std::int64_t k) {
      return Attributes{{"dtype", static_cast<std::int64_t>(dtype)}, {"k", k}};
    };
    const ValueId shape = g.add(OpKind::Shape, {open});
    const ValueId size = g.add(OpKind::Size, {open});
    Attributes seven;
    seven["value"] = Tensor::from_integers(std::array{std::int64_t{7}});
    g.outputs = {g.add(OpKind::EyeLike, {x}),
                 g.add(OpKind::EyeLike, {x}, to(DType::F32, -1)),
                 g.add(OpKind::EyeLike, {open}, to(DType::F16, 2)),
                 g.add(OpKind::EyeLike, {open}, to(DType::I1, 100)),
                 g.add(OpKind::Range, {graph::scalar(g, 3), size, graph::scalar(g, 2)}),
                 g.add(OpKind::ConstantOfShape, {shape}),
                 g.add(OpKind::ConstantOfShape, {shape}, seven)};
  });
}

TEST(Movement, OneHotOfAnyTypes) {
  check([](Graph& g) {
    const graph::Dim n = symbol(g, "n");
    const ValueId x = add_input(g, DType::I64, Shape{n, 3}, "x");
    const ValueId real = g.add(OpKind::Cast, {x}, {{"to", static_cast<std::int64_t>(DType::F32)}});
    const ValueId small = add_input(g, DType::I32, Shape{}, "small");
    const ValueId values = add_input(g, DType::F32, Shape{2}, "values");
    const ValueId size = g.add(OpKind::Size, {x});
    g.outputs = {g.add(OpKind::OneHot, {x, graph::scalar(g, 7), values}, {{"axis", graph::number(1)}}),
                 g.add(OpKind::OneHot, {real, graph::floats(g, {9}), values}),
                 g.add(OpKind::OneHot, {x, size, values}, {{"axis", graph::number(0)}}),
                 g.add(OpKind::OneHot, {small, graph::integers(g, {5}), values})};
  });
}

}  // namespace
}  // namespace kiln
