#include "ir/graph/infer.h"

namespace kiln::graph {

#define KILN_PENDING(name) \
  void name(Graph&, Node&) { throw_caller(ErrorCode::Unsupported, "shape inference is missing"); }
KILN_PENDING(infer_attention)
KILN_PENDING(infer_group_query_attention)
KILN_PENDING(infer_linear_attention)
KILN_PENDING(infer_multi_head_attention)
KILN_PENDING(infer_recurrent)

}  // namespace kiln::graph
