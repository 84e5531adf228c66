//! A second device: an implementation of `Backend` and one call. It computes on the weights of a model that is loaded already, which
//! are bound for it once and shared by its contexts.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::{fixture, load};
use ember::backend::cpu::CpuBackend;
use ember::backend::{
    Activation, Attention, Backend, CausalConv, Columns, Embed, KvAppend, KvHeads, KvPages, KvRows, KvShape,
    KvType, Limits, Mix, MoeMatmul, MoeRoute, Norm, Pass, Pointwise, Product, Rope, RowChange, Scan,
    StateShape, WeightSource,
};
use ember::context::{BackendKind, Context, ContextOptions, EmbedOptions, Tokens};
use ember::error::Result;
use ember::memory::Memory;

/// The operations that the device ran.
#[derive(Default)]
struct Counts {
    uploads: AtomicUsize,
    products: AtomicUsize,
    passes: AtomicUsize,
}

/// A device that has another one compute: of the operations it has those of a llama.
struct Device {
    inner: CpuBackend,
    counts: Arc<Counts>,
}

impl Device {
    fn new(memory: &Memory, counts: &Arc<Counts>) -> Device {
        Device { inner: CpuBackend::new(memory.clone()), counts: Arc::clone(counts) }
    }
}

/// Its KV cache, which rounds nothing by default.
struct DeviceKv(<CpuBackend as Backend>::Kv);

impl KvPages for DeviceKv {
    fn usual_type(_: &[KvHeads], _: usize) -> KvType {
        KvType::F32
    }

    fn bytes(shape: &KvShape) -> Option<(usize, usize)> {
        <CpuBackend as Backend>::Kv::bytes(shape)
    }

    fn page_bytes(&self) -> usize {
        self.0.page_bytes()
    }

    fn copy_page(&mut self, from: u32, to: u32) {
        self.0.copy_page(from, to);
    }

    fn read_page(&self, page: u32, used: Range<usize>, out: &mut [u8]) {
        self.0.read_page(page, used, out);
    }

    fn write_page(&mut self, page: u32, bytes: &[u8]) {
        self.0.write_page(page, bytes);
    }
}

impl Backend for Device {
    type Buffer = <CpuBackend as Backend>::Buffer;
    type Weight = <CpuBackend as Backend>::Weight;
    type Kv = DeviceKv;
    type States = <CpuBackend as Backend>::States;

    fn upload(&mut self, src: &WeightSource<'_>) -> Result<Self::Weight> {
        self.counts.uploads.fetch_add(1, Relaxed);
        self.inner.upload(src)
    }

    fn alloc(&self, len: usize) -> Result<Self::Buffer> {
        self.inner.alloc(len)
    }

    fn alloc_kv(&self, shape: &KvShape) -> Result<Self::Kv> {
        self.inner.alloc_kv(shape).map(DeviceKv)
    }

    fn alloc_states(&self, shape: &StateShape) -> Result<Self::States> {
        self.inner.alloc_states(shape)
    }

    fn reserve(&mut self, limits: &Limits) -> Result<()> {
        self.inner.reserve(limits)
    }

    fn write(&mut self, dst: &mut Self::Buffer, offset: usize, src: &[f32]) {
        self.inner.write(dst, offset, src);
    }

    fn read(&mut self, src: &Self::Buffer, offset: usize, dst: &mut [f32]) {
        self.inner.read(src, offset, dst);
    }

    fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }

    fn begin(&mut self, pass: &Pass<'_>) -> Result<()> {
        self.counts.passes.fetch_add(1, Relaxed);
        self.inner.begin(pass)
    }

    fn embed(&mut self, args: Embed<'_, Self>) -> Result<()> {
        let Embed { table, rows, out } = args;
        self.inner.embed(Embed { table, rows, out })
    }

    fn matmul(&mut self, x: &Self::Buffer, n: usize, product: Product<'_, Self>) {
        self.counts.products.fetch_add(1, Relaxed);
        let Product { weight, out } = product;
        self.inner.matmul(x, n, Product { weight, out });
    }

    fn rms_norm(&mut self, args: Norm<'_, Self>) {
        let Norm { x, rows, n, weight, bias, eps, out } = args;
        self.inner.rms_norm(Norm { x, rows, n, weight, bias, eps, out });
    }

    fn layer_norm(&mut self, _: Norm<'_, Self>) {
        unreachable!("a llama has none")
    }

    fn activate(&mut self, _: &mut Self::Buffer, _: Pointwise, _: usize) {
        unreachable!("a llama has none")
    }

    fn mul(&mut self, x: &mut Self::Buffer, y: &Self::Buffer, len: usize) {
        self.inner.mul(x, y, len);
    }

    fn add(&mut self, x: &mut Self::Buffer, y: &Self::Buffer, len: usize) {
        self.inner.add(x, y, len);
    }

    fn add_bias(&mut self, x: &mut Self::Buffer, bias: &Self::Weight, n: usize) {
        self.inner.add_bias(x, bias, n);
    }

    fn scale(&mut self, x: &mut Self::Buffer, factor: f32, len: usize) {
        self.inner.scale(x, factor, len);
    }

    fn softcap(&mut self, x: &mut Self::Buffer, cap: f32, len: usize) {
        self.inner.softcap(x, cap, len);
    }

    fn arg_max(&mut self, x: &Self::Buffer, n_cols: usize, out: &mut [u32]) {
        self.inner.arg_max(x, n_cols, out);
    }

    fn sigmoid_gate(&mut self, _: &mut Self::Buffer, _: &Self::Buffer, _: usize, _: usize) {
        unreachable!("a llama has none")
    }

    fn rope(&mut self, args: Rope<'_, Self>) {
        let Rope { q, k, n_head, n_head_kv, head_dim, inv_freq, magnitude, style } = args;
        self.inner.rope(Rope { q, k, n_head, n_head_kv, head_dim, inv_freq, magnitude, style });
    }

    fn kv_append(&mut self, args: KvAppend<'_, Self>) {
        let KvAppend { kv, layer, rows } = args;
        let rows = match rows {
            KvRows::New { group, k, v } => KvRows::New { group, k, v },
            KvRows::Moved { from, to, rotation } => KvRows::Moved { from, to, rotation },
        };
        self.inner.kv_append(KvAppend { kv: &mut kv.0, layer, rows });
    }

    fn attention(&mut self, args: &Attention<'_, Self>, out: &mut Self::Buffer) {
        let &Attention { kv, group, layer, q, n_head, scale, causal, window, .. } = args;
        let &Attention { sees, chunked, growth, softcap, bias, sinks, .. } = args;
        let kv = &kv.0;
        let args = Attention {
            kv,
            group,
            layer,
            q,
            n_head,
            scale,
            sees,
            causal,
            window,
            chunked,
            growth,
            softcap,
            bias,
            sinks,
        };
        self.inner.attention(&args, out);
    }

    fn act_mul(&mut self, activation: Activation, gate: &mut Self::Buffer, up: &Self::Buffer, len: usize) {
        self.inner.act_mul(activation, gate, up, len);
    }

    fn causal_conv(&mut self, _: CausalConv<'_, Self>) {
        unreachable!("a llama has none")
    }

    fn scan(&mut self, _: Scan<'_, Self>) {
        unreachable!("a llama has none")
    }

    fn copy_columns(&mut self, _: Columns<'_, Self>) {
        unreachable!("a llama has none")
    }

    fn change_rows(&mut self, _: &mut Self::Buffer, _: &RowChange<'_, Self>, _: usize, _: usize) {
        unreachable!("a llama has none")
    }

    fn mix(&mut self, _: Mix<'_, Self>) {
        unreachable!("a llama has none")
    }

    fn moe_route(&mut self, _: MoeRoute<'_, Self>) {
        unreachable!("a llama has none")
    }

    fn moe_matmul(&mut self, _: MoeMatmul<'_, Self>) {
        unreachable!("a llama has none")
    }
}

#[test]
fn a_device_is_a_backend_and_one_call() {
    let model = load(&fixture("models/llama-tied-f16.gguf"));
    let options = ContextOptions { n_ctx: 128, n_seq: 2, n_batch: 16, ..ContextOptions::default() };
    // The device keeps f32 by default.
    let (backend, f32) = (BackendKind::Scalar, Some(KvType::F32));
    let scalar = ContextOptions { backend, k_type: f32, v_type: f32, ..options.clone() };
    let mut expected = Context::new(&model, &scalar).unwrap();
    let counts = Arc::new(Counts::default());
    let on_device = || Context::on(&model, &options, |memory| Ok(Device::new(memory, &counts))).unwrap();
    let weights = model.memory().used();
    let mut device = on_device();
    // Weights are bound when the first context is made, and not again.
    let (n_uploads, own) = (counts.uploads.load(Relaxed), device.memory());
    assert!(n_uploads >= model.gguf().tensors().len());
    let bound = model.memory().used() - weights - own.0 - own.1;
    let second = on_device();
    assert_eq!(counts.uploads.load(Relaxed), n_uploads);
    assert_eq!(model.memory().used(), weights + bound + 2 * (own.0 + own.1));
    drop(second);
    // All that a context does.
    let ids: Vec<u32> = (0..70).map(|i| i * 5 % 64).collect();
    let bits =
        |context: &Context| context.end_logits(0).unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for context in [&mut expected, &mut device] {
        context.decode(Tokens::next(&ids)).unwrap();
        context.copy_sequence(0, 1, 50).unwrap();
        context.shift(0, 3, 20).unwrap();
        context.rewind(0, 40).unwrap();
        context.decode(Tokens::next(&ids[..9])).unwrap();
    }
    assert_eq!(bits(&device), bits(&expected));
    assert!(counts.products.load(Relaxed) > 0);
    // Micro-batches: 70 tokens of 16, then 9, both of the text.
    assert_eq!(counts.passes.load(Relaxed), 6);
    let [a, b] = [&mut expected, &mut device]
        .map(|context| context.embed(&[&ids[..20], &ids[30..33]], &EmbedOptions::default()).unwrap());
    assert_eq!(a, b);
    let mut state = Vec::new();
    let write = &mut |bytes: &[u8]| {
        state.extend_from_slice(bytes);
        Ok(())
    };
    device.save_state(Some(0), write).unwrap();
    expected.load_state(Some(1), &state).unwrap();
    assert_eq!(expected.tokens(1).unwrap(), device.tokens(0).unwrap());
}

#[test]
fn scalar_contexts_share_their_weights() {
    let model = load(&fixture("models/llama-tied-f32.gguf"));
    let scalar = ContextOptions { backend: BackendKind::Scalar, ..ContextOptions::default() };
    let first = Context::new(&model, &scalar).unwrap();
    let used = model.memory().used();
    // They count as the model's.
    let (kv, other) = first.memory();
    assert_eq!(model.weights_memory(), used - kv - other);
    let second = Context::new(&model, &scalar).unwrap();
    let (kv, other) = second.memory();
    assert_eq!((kv, other), first.memory());
    assert_eq!(model.memory().used(), used + kv + other);
}
