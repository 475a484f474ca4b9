// Vectorised loops over the hidden units.
#include "core/cpu/kernels/recurrent_rows.h"

#include "core/cpu/support/vector_math.h"
#include "core/vectorize.h"

namespace whisker::cpu {

WHISKER_VECTORIZE void add_rows_of(const float* a, const float* b, float* y, int64_t count) {
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) y[j] = a[j] + b[j];
}

WHISKER_VECTORIZE void tanh_row(float* z, const float* bias, float* h, int64_t hidden) {
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) h[j] = z[j] = vector_tanh(z[j] + bias[j]);
}

WHISKER_VECTORIZE void relu_row(float* z, const float* bias, float* h, int64_t hidden) {
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    const float sum = z[j] + bias[j];
    h[j] = z[j] = sum < 0 ? 0 : sum;
  }
}

WHISKER_VECTORIZE void lstm_row(float* gates, const float* bias, float* c, float* c_kept, float* m,
                                int64_t hidden) {
  float *gi = gates, *gf = gates + hidden, *gg = gf + hidden, *go = gg + hidden;
  const float *bi = bias, *bf = bias + hidden, *bg = bf + hidden, *bo = bg + hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    const float i = vector_sigmoid(gi[j] + bi[j]);
    const float f = vector_sigmoid(gf[j] + bf[j]);
    const float g = vector_tanh(gg[j] + bg[j]);
    const float o = vector_sigmoid(go[j] + bo[j]);
    const float cell = f * c[j] + i * g;
    gi[j] = i;
    gf[j] = f;
    gg[j] = g;
    go[j] = o;
    c[j] = cell;
    c_kept[j] = cell;
    m[j] = o * vector_tanh(cell);
  }
}

WHISKER_VECTORIZE void gru_row(float* gates, const float* bias, float* recurred,
                               const float* recurred_bias, float* h, int64_t hidden) {
  float *gr = gates, *gz = gates + hidden, *gn = gz + hidden;
  const float *br = bias, *bz = bias + hidden, *bn = bz + hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    const float r = vector_sigmoid(gr[j] + br[j]);
    const float z = vector_sigmoid(gz[j] + bz[j]);
    const float u = recurred[j] + recurred_bias[j];
    const float n = vector_tanh(gn[j] + bn[j] + r * u);
    gr[j] = r;
    gz[j] = z;
    gn[j] = n;
    recurred[j] = u;
    h[j] = n + z * (h[j] - n);
  }
}

WHISKER_VECTORIZE void tanh_row_backward(const float* y, const float* dm, float* dgates,
                                         int64_t hidden) {
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) dgates[j] = dm[j] * (1 - y[j] * y[j]);
}

WHISKER_VECTORIZE void relu_row_backward(const float* y, const float* dm, float* dgates,
                                         int64_t hidden) {
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) dgates[j] = y[j] <= 0 ? 0 : dm[j];
}

WHISKER_VECTORIZE void lstm_row_backward(const float* gates, const float* c, const float* c_before,
                                         const float* dm, float* dc, float* dgates,
                                         int64_t hidden) {
  const float *gi = gates, *gf = gates + hidden, *gg = gf + hidden, *go = gg + hidden;
  float *di = dgates, *df = dgates + hidden, *dg = df + hidden, *d_o = dg + hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    const float i = gi[j], f = gf[j], g = gg[j], o = go[j];
    const float squashed = vector_tanh(c[j]);
    const float dcell = dc[j] + dm[j] * o * (1 - squashed * squashed);
    di[j] = dcell * g * i * (1 - i);
    df[j] = dcell * c_before[j] * f * (1 - f);
    dg[j] = dcell * i * (1 - g * g);
    d_o[j] = dm[j] * squashed * o * (1 - o);
    dc[j] = dcell * f;
  }
}

WHISKER_VECTORIZE void gru_row_backward(const float* gates, const float* recurred,
                                        const float* h_before, const float* dm, float* dh,
                                        float* dgates, float* drecurred, int64_t hidden) {
  const float *gr = gates, *gz = gates + hidden, *gn = gz + hidden;
  float *dr = dgates, *dz = dgates + hidden, *dn = dz + hidden;
#pragma omp simd
  for (int64_t j = 0; j < hidden; ++j) {
    const float r = gr[j], z = gz[j], n = gn[j];
    const float d = dm[j];
    const float candidate = d * (1 - z) * (1 - n * n);
    dr[j] = candidate * recurred[j] * r * (1 - r);
    dz[j] = d * (h_before[j] - n) * z * (1 - z);
    dn[j] = candidate;
    drecurred[j] = candidate * r;
    dh[j] = d * z;
  }
}

}  // namespace whisker::cpu
