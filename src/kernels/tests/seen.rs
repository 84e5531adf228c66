use super::*;
use crate::kernels::attention::KvLayout;

/// What a query sees, by the rule in words.
#[test]
fn windows_look_ahead_where_attention_is_not_causal() {
    let layout = KvLayout { n_pages: 0, page_bytes: 0, run: 1, gap: 0 };
    let store = KvStore { bytes: &[], kv_type: KvType::F32, layout, offset: 0 };
    let cases = [(true, None), (true, Some(3)), (false, None), (false, Some(3)), (false, Some(99))];
    for (causal, window) in cases {
        let tile = AttnTile {
            q: &[],
            stride: 64,
            group: 2,
            n_tokens: 4,
            dims: HeadDims::all(32),
            k: store,
            v: store,
            pages: &[],
            kv_head: 0,
            position: 10,
            causal,
            from: 0,
            end: 20,
            window,
            chunked: false,
            scale: 1.0,
            growth: None,
            softcap: None,
            bias: None,
            head: 0,
        };
        for i in 0..8 {
            let position = 10 + i / 2;
            let sees = |&p: &usize| {
                let near = window.is_none_or(|w| p.abs_diff(position) < w);
                near && (!causal || p <= position)
            };
            assert_eq!(tile.seen_by(i).collect::<Vec<_>>(), (0..20).filter(sees).collect::<Vec<_>>());
        }
    }
}
