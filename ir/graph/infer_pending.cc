#include "ir/graph/infer.h"

namespace kiln::graph {

#define KILN_PENDING(name) \
  void name(Graph&, Node&) { throw_caller(ErrorCode::Unsupported, "shape inference is missing"); }
KILN_PENDING(infer_affine_grid)
KILN_PENDING(infer_attention)
KILN_PENDING(infer_bit_cast)
KILN_PENDING(infer_center_crop_pad)
KILN_PENDING(infer_col2im)
KILN_PENDING(infer_deform_conv)
KILN_PENDING(infer_det)
KILN_PENDING(infer_dft)
KILN_PENDING(infer_einsum)
KILN_PENDING(infer_grid_sample)
KILN_PENDING(infer_group_query_attention)
KILN_PENDING(infer_linear_attention)
KILN_PENDING(infer_max_roi_pool)
KILN_PENDING(infer_max_unpool)
KILN_PENDING(infer_mel_weight_matrix)
KILN_PENDING(infer_multi_head_attention)
KILN_PENDING(infer_multinomial)
KILN_PENDING(infer_nll_loss)
KILN_PENDING(infer_random)
KILN_PENDING(infer_recurrent)
KILN_PENDING(infer_roi_align)
KILN_PENDING(infer_stft)
KILN_PENDING(infer_tensor_scatter)
KILN_PENDING(infer_unique)

}  // namespace kiln::graph
