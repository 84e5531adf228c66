#!/usr/bin/env python3
"""Train a small GPT-2 (same architecture, fewer and narrower layers) on the CPU.

    python train.py --work work --minutes 55

The learning rate follows the wall clock: warm-up, hold, then a linear fall to
zero that ends when the minutes are spent, so a slow or busy machine still gives
a finished model. Checkpoints land in work/ckpt.pt (resume with --resume).
"""
import argparse, csv, json, math, os, sys, time
import numpy as np
# Large activations must come from the heap, not from a fresh mmap for every tensor:
# page faults otherwise take more time than the arithmetic. glibc reads these at start.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592",
          "MALLOC_TOP_PAD_": "536870912", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
if __name__ == "__main__" and os.environ.get("GLIBC_TUNABLES") != MALLOC["GLIBC_TUNABLES"]:
    os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **MALLOC})
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist, torch.multiprocessing as mp

WEIGHTS_FILE = "sources.json"


class TiedLoss(torch.autograd.Function):
    """Mean cross-entropy of x @ w.T, in slices of rows: the logits of a whole batch never exist,
    and both gradients are made on the way (F.cross_entropy took a quarter of the step)."""
    @staticmethod
    def forward(ctx, x, w, targets, rows=256):
        with torch.autocast("cpu", enabled=False):
            n = x.shape[0]
            xb, wb = x.to(torch.bfloat16), w.to(torch.bfloat16)
            need = ctx.needs_input_grad[0]
            dx = torch.empty_like(xb)
            dw = torch.zeros_like(w)
            loss = 0.0
            for i in range(0, n, rows):
                xs, ts = xb[i:i + rows], targets[i:i + rows, None]
                z = (xs @ wb.T).float()
                z -= z.amax(1, keepdim=True)
                picked = z.gather(1, ts)
                total = z.exp_().sum(1, keepdim=True)
                loss += (total.log() - picked).sum().item()
                if need:
                    z /= total
                    z.scatter_add_(1, ts, torch.full_like(picked, -1.0))
                    g = z.to(torch.bfloat16)
                    dx[i:i + rows] = g @ wb
                    dw += g.T @ xs
            ctx.save_for_backward(dx, dw)
            ctx.n, ctx.dtype = n, x.dtype
        return torch.tensor(loss / n)

    @staticmethod
    def backward(ctx, grad):
        dx, dw = ctx.saved_tensors
        scale = grad.item() / ctx.n
        return dx.to(ctx.dtype) * scale, dw * scale, None, None


class Block(nn.Module):
    def __init__(self, d, heads, drop):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.c_fc, self.c_out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        with torch.autocast("cpu", enabled=False):      # at these sizes faster than the CPU flash kernel
            k = k * (d // self.heads) ** -0.5
            mask = torch.full((t, t), float("-inf"), dtype=q.dtype).triu(1)
            y = torch.softmax(q @ k.transpose(-1, -2) + mask, -1) @ v
        y = self.c_proj(y.transpose(1, 2).reshape(b, t, d))
        x = x + F.dropout(y, self.drop, self.training)
        y = self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))
        return x + F.dropout(y, self.drop, self.training)


class GPT2(nn.Module):
    def __init__(self, vocab, ctx, d, layers, heads, drop=0.0):
        super().__init__()
        self.config = dict(vocab=vocab, ctx=ctx, d=d, layers=layers, heads=heads)
        self.drop = drop
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.h = nn.ModuleList(Block(d, heads, drop) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                std = 0.02
                if name.endswith(("c_proj.weight", "c_out.weight")):
                    std /= math.sqrt(2 * layers)
                nn.init.normal_(p, std=std)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids, targets=None):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        x = F.dropout(x, self.drop, self.training)
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        if targets is None:
            return x @ self.wte.weight.T
        return TiedLoss.apply(x.reshape(-1, x.shape[-1]), self.wte.weight, targets.reshape(-1))


# Muon: momentum, then the matrix is made orthogonal by a few Newton-Schulz steps. (K. Jordan, 2024.)
def orthogonal(g, steps=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = (g.T if g.shape[0] > g.shape[1] else g).bfloat16()
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return (x.T if g.shape[0] > g.shape[1] else x).float()


class Muon:
    """Each process makes its share of the updates; one all-reduce brings them together."""
    def __init__(self, params, lr, weight_decay, rank, ranks, momentum=0.95):
        self.params, self.lr, self.wd, self.momentum = list(params), lr, weight_decay, momentum
        self.rank, self.ranks = rank, ranks
        self.buf = [torch.zeros_like(p) for p in self.params]
        self.flat = torch.zeros(sum(p.numel() for p in self.params))
        self.update = [v.view_as(p) for v, p in zip(self.flat.split([p.numel() for p in self.params]), self.params)]

    @torch.no_grad()
    def step(self, scale):
        self.flat.zero_()
        for i, (p, m, u) in enumerate(zip(self.params, self.buf, self.update)):
            m.lerp_(p.grad, 1 - self.momentum)
            if i % self.ranks != self.rank:
                continue
            g = p.grad.lerp(m, self.momentum)
            # the fused q,k,v matrix is three square ones
            parts = g.chunk(3) if g.shape[0] == 3 * g.shape[1] else [g]
            u.copy_(torch.cat([orthogonal(x) * max(1, x.shape[0] / x.shape[1]) ** 0.5 for x in parts]))
        if self.ranks > 1:
            dist.all_reduce(self.flat)
        for p, u in zip(self.params, self.update):
            p.mul_(1 - self.lr * scale * self.wd).add_(u, alpha=-self.lr * scale)


class Windows:
    """Random windows; a source is drawn in proportion to its length times its weight."""
    def __init__(self, path, weights, ctx, seed):
        self.parts = {k: v.astype(np.int64) for k, v in np.load(path).items()}
        self.names = list(self.parts)
        p = np.array([len(self.parts[k]) * weights[k] for k in self.names], float)
        self.p, self.ctx, self.rng = p / p.sum(), ctx, np.random.default_rng(seed)

    def batch(self, n, ctx):
        rows = []
        for s in self.rng.choice(len(self.names), n, p=self.p):
            a = self.parts[self.names[s]]
            i = self.rng.integers(0, len(a) - ctx - 1)
            rows.append(a[i:i + ctx + 1])
        x = torch.from_numpy(np.stack(rows))
        return x[:, :-1], x[:, 1:]

    def fixed(self, n):
        """Evenly spaced windows, the same in every call and in proportion to the weights."""
        rows = []
        for name, p in zip(self.names, self.p):
            a = self.parts[name]
            k = max(1, round(n * p))
            for i in np.linspace(0, len(a) - self.ctx - 2, k).astype(int):
                rows.append(a[i:i + self.ctx + 1])
        x = torch.from_numpy(np.stack(rows))
        return x[:, :-1], x[:, 1:]


def schedule(t, warm=0.015, hold=0.3):
    if t < warm:
        return t / warm
    return 1.0 if t < hold else max(0.0, (1 - t) / (1 - hold))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", default="work")
    ap.add_argument("--minutes", type=float, default=55)
    ap.add_argument("--ctx", type=int, default=512)
    ap.add_argument("--d", type=int, default=192)
    ap.add_argument("--layers", type=int, default=5)
    ap.add_argument("--heads", type=int, default=3)
    ap.add_argument("--batch", type=int, default=6, help="windows a step in each process")
    ap.add_argument("--dropout", type=float, default=0.1)
    ap.add_argument("--dropout-until", type=float, default=0.6, help="part of the time with dropout")
    ap.add_argument("--lr-muon", type=float, default=0.02)
    ap.add_argument("--lr-adam", type=float, default=3e-3)
    ap.add_argument("--weight-decay", type=float, default=0.05)
    ap.add_argument("--optimizer", choices=["muon", "adamw"], default="muon")
    ap.add_argument("--ranks", type=int, default=2, help="single-threaded processes, gradients averaged")
    ap.add_argument("--long-from", type=float, default=0.55, help="part of the time before full-length windows")
    ap.add_argument("--f32", action="store_true")
    ap.add_argument("--bench", type=int, default=0, help="time this many steps and stop")
    ap.add_argument("--eval-every", type=int, default=250)
    ap.add_argument("--resume", action="store_true")
    a = ap.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29577")
    if a.ranks > 1:
        mp.spawn(train_rank, (a,), a.ranks)
    else:
        train_rank(0, a)


def train_rank(rank, a):
    torch.set_num_threads(1)
    if a.ranks > 1:
        dist.init_process_group("gloo", rank=rank, world_size=a.ranks)
    lead = rank == 0
    say = (lambda *s: print(*s, flush=True)) if lead else (lambda *s: None)
    torch.manual_seed(1)
    weights = {k: v["weight"] for k, v in json.load(open(os.path.join(a.work, WEIGHTS_FILE))).items()}
    from tokenizers import Tokenizer
    vocab = Tokenizer.from_file(os.path.join(a.work, "tokenizer.json")).get_vocab_size()

    model = GPT2(vocab, a.ctx, a.d, a.layers, a.heads, a.dropout)
    say(f"{sum(p.numel() for p in model.parameters())} parameters")
    mats = [p for n, p in model.named_parameters() if n.startswith("h.") and p.dim() == 2]
    rest = [p for n, p in model.named_parameters() if not (n.startswith("h.") and p.dim() == 2)]
    adam_params = [dict(params=[p for p in rest if p.dim() == 2], weight_decay=0.01),
                   dict(params=[p for p in rest if p.dim() < 2], weight_decay=0.0)]
    if a.optimizer == "adamw":
        adam_params.append(dict(params=mats, weight_decay=a.weight_decay))
    adam = torch.optim.AdamW(adam_params, lr=a.lr_adam, betas=(0.9, 0.95), eps=1e-9, fused=True)
    muon = Muon(mats, a.lr_muon, a.weight_decay, rank, a.ranks) if a.optimizer == "muon" else None

    train = Windows(os.path.join(a.work, "data", "train.npz"), weights, a.ctx, int(time.time()) * 8 + rank)
    vx, vy = Windows(os.path.join(a.work, "data", "val.npz"), weights, a.ctx, 0).fixed(48)
    tx, ty = Windows(os.path.join(a.work, "data", "train.npz"), weights, a.ctx, 0).fixed(48)
    ckpt, log = os.path.join(a.work, "ckpt.pt"), os.path.join(a.work, "loss.csv")
    step, tokens, used = 0, 0, 0.0
    if a.resume:
        s = torch.load(ckpt)
        model.load_state_dict(s["model"]); adam.load_state_dict(s["adam"])
        if muon:
            muon.buf = s["muon"]
        step, tokens, used = s["step"], s["tokens"], s["used"]
    elif lead and not a.bench:
        csv.writer(open(log, "w")).writerow(["step", "tokens", "seconds", "lr_scale", "train_loss", "val_loss"])
    # one flat buffer holds every gradient (and, last, the clock of rank 0)
    params = list(model.parameters())
    flat = torch.zeros(sum(p.numel() for p in params) + 1)
    at = 0
    for p in params:
        p.grad = flat[at:at + p.numel()].view_as(p)
        at += p.numel()
    cast = lambda: torch.autocast("cpu", torch.bfloat16, enabled=not a.f32)

    def evaluate(x, y):
        model.eval()
        with torch.no_grad(), cast():
            out = [model(x[i:i + 8], y[i:i + 8]).item() * len(x[i:i + 8]) for i in range(0, len(x), 8)]
        model.train()
        return sum(out) / len(x)

    budget, start, run_loss, times = a.minutes * 60, time.time() - used, [], []
    t = used / budget
    while t < 1 or a.bench:
        t0 = time.time()
        flat.zero_()
        # half-length windows first: cheaper, and the long ones need only a short adaptation
        x, y = train.batch(a.batch, a.ctx) if t > a.long_from else train.batch(2 * a.batch, a.ctx // 2)
        if t > a.dropout_until:
            for m in (model, *model.h):
                m.drop = 0.0
        with cast():
            loss = model(x, y)
        loss.backward()
        flat[-1] = (time.time() - start) / budget * a.ranks if lead else 0.0
        if a.ranks > 1:
            dist.all_reduce(flat)
        flat.div_(a.ranks)
        t, scale = flat[-1].item(), 1.0 if a.bench else schedule(flat[-1].item())
        nn.utils.clip_grad_norm_(rest if muon else params, 1.0)
        for g in adam.param_groups:
            g["lr"] = a.lr_adam * scale
        adam.step()
        if muon:
            muon.step(scale)
        run_loss.append(loss.item())
        times.append(time.time() - t0)
        step, tokens = step + 1, tokens + x.numel() * a.ranks
        if a.bench and step >= a.bench:
            dt = float(np.median(times[3:]))
            say(f"{x.numel() * a.ranks / dt:.0f} tokens/s ({dt:.3f} s a step), loss {run_loss[-1]:.3f}")
            return
        if step % 50 == 0:
            say(f"{step} {tokens} {time.time() - start:.0f}s lr {scale:.3f} loss {np.mean(run_loss[-50:]):.4f} "
                f"{x.numel() * a.ranks / np.mean(times[-50:]):.0f} tok/s")
        if step % a.eval_every == 0 and lead:
            v = evaluate(vx, vy)
            csv.writer(open(log, "a")).writerow([step, tokens, f"{time.time() - start:.0f}", f"{scale:.3f}",
                                                 f"{np.mean(run_loss[-a.eval_every:]):.4f}", f"{v:.4f}"])
            say(f"  val {v:.4f}")
            save(model, adam, muon, step, tokens, time.time() - start, ckpt)
    if not lead:
        return
    final_t, final_v = evaluate(tx, ty), evaluate(vx, vy)
    csv.writer(open(log, "a")).writerow([step, tokens, f"{time.time() - start:.0f}", "0.000", f"{final_t:.4f}", f"{final_v:.4f}"])
    save(model, adam, muon, step, tokens, time.time() - start, ckpt)
    print(f"done: step {step}, {tokens} tokens, train {final_t:.4f} val {final_v:.4f} (no dropout)")


def save(model, adam, muon, step, tokens, used, path):
    torch.save(dict(config=model.config, model=model.state_dict(), adam=adam.state_dict(),
                    muon=muon.buf if muon else None, step=step, tokens=tokens, used=used), path + ".tmp")
    os.replace(path + ".tmp", path)


if __name__ == "__main__":
    main()
