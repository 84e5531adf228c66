using System;
using System.Collections.Generic;
using System.Linq;
using Ember;

/// <summary>Samplers: their stages, logits that are sampled by hand, and stages of one's own.</summary>
public static class SamplerTest
{
    private static readonly Model Tales = Model.Load(Test.Tales);
    private static readonly Context Context = Tales.CreateContext(new ContextOptions { Positions = 256, Threads = 1 });

    private static uint[] Draw(Sampler sampler, string prompt = "The wolf said", uint n = 12)
    {
        Context.Rewind(0);
        var events = Context.Generate(prompt, new GenerateOptions { MaxTokens = n, Sampler = sampler });
        return events.Where(one => !one.IsEnd).Select(one => one.Token.Value).ToArray();
    }

    private static uint Token(string text) => Tales.Tokenize(text, false)[0];

    private static Sampler Towards(uint token, float by) => new Sampler().Bias(new Dictionary<uint, float> { { token, by } });

    public static void Choices()
    {
        var greedy = Draw(null);
        Test.Same("greedy", Draw(new Sampler().Greedy()), greedy);
        Test.True("denied", !Draw(new Sampler().Deny(greedy[0]).Greedy()).Contains(greedy[0]));
        Test.True("ruled out", !Draw(Towards(greedy[0], float.NegativeInfinity).Greedy()).Contains(greedy[0]));
        Test.Same("biased", Draw(Towards(Token(" sea"), 100).Greedy()), Enumerable.Repeat(Token(" sea"), 12));
        var allowed = Tales.Tokenize(" the wolf", false);
        Test.True("allowed", !Draw(new Sampler(5).Allow(allowed).Temperature(1)).Except(allowed).Any());
        Test.Refused(Status.InvalidArgument, "", () => Draw(new Sampler().Allow()));
        // In the order of the calls.
        var logits = new float[] { 1, 2, 3 };
        Test.Equal("before", new Sampler().TopK(1).Bias(new Dictionary<uint, float> { { 0, 10 } }).Sample(logits), 2u);
        Test.Equal("after", Towards(0, 10).TopK(1).Sample(logits), 0u);
        Func<Sampler> all = () => new Sampler(5).Penalties(64, 1.3f, 0, 0).TopNSigma(1.5f).TypicalP(0.9f).MinP(0.01f).Xtc(0.5f, 0.1f).Temperature(1.2f);
        Test.Same("the same stages", Draw(all()), Draw(all()));
        Test.True("other stages", !Draw(all()).SequenceEqual(Draw(new Sampler(5).Temperature(1.2f))));
        foreach (var one in new Func<Sampler>[]
        {
            () => new Sampler(5).DynamicTemperature(1, 0.5f, 1), () => new Sampler(5).Mirostat(5, 0.1f), () => new Sampler(5).AdaptiveP(0.3f, 0.9f),
        })
        {
            Test.Same("again", Draw(one()), Draw(one()));
        }
        Test.True("Mirostat 1", !Draw(new Sampler(5).Mirostat1(0.01f, 1, 50)).SequenceEqual(Draw(new Sampler(5).Mirostat1(9, 0.1f, 100))));
        Test.Refused(Status.InvalidArgument, "1", () => new Sampler().Mirostat1(5, 0.1f, 1));
        Test.Refused(Status.InvalidArgument, "0", () => new Sampler().Penalties(8, 0, 0, 0));
    }

    public static void Repetitions()
    {
        const string passage = " one two three four five";
        const string repeated = "Count:" + passage + "." + passage + ". one two three";
        var four = new[] { Token(" four") };
        Test.Same("carried on", Draw(Towards(four[0], 20), repeated, 1), four);
        Test.True("DRY", !Draw(Towards(four[0], 20).Dry(Tales, 50, 2, 1, 1024), repeated, 1).SequenceEqual(four));
        Test.Same("a breaker", Draw(Towards(four[0], 20).Dry(Tales, 50, 2, 1, 1024, new[] { " three" }), repeated, 1), four);
        const string lines = "Count: one two\n four five. one two three four five. one two\n";
        Test.Same("the usual breakers", Draw(Towards(four[0], 20).Dry(Tales, 50, 2, 1, 1024), lines, 1), four);
        Test.True("no breakers", !Draw(Towards(four[0], 20).Dry(Tales, 50, 2, 1, 1024, new string[0]), lines, 1).SequenceEqual(four));
        // The prompt's tokens count, unless only those that were generated do.
        var wolf = Token(" wolf");
        foreach (var generated in new[] { false, true })
        {
            var two = Draw(Towards(wolf, 50).Penalties(64, 1, 0, 100).PenaltiesOfGenerated(generated).Greedy(), n: 2);
            Test.Same("penalties", two.Select(token => token == wolf), new[] { generated, false });
        }
        // An end that is likely is taken, however likely another token is.
        var logits = Enumerable.Repeat(-20f, (int)Tales.Info.VocabularySize).ToArray();
        var eos = Tales.Info.Eos.Value;
        logits[Token(" sea")] = 1;
        logits[Token(" the")] = 0.5f;
        logits[eos] = 0.9f;
        Test.Equal("plain", new Sampler().Greedy().Sample(logits), Token(" sea"));
        Test.Equal("infill", new Sampler().Infill(Tales).Greedy().Sample(logits), eos);
    }

    public static void ByHand()
    {
        var greedy = Draw(null, n: 6);
        var prompt = Tales.Tokenize("The wolf said");
        Context.Rewind(0);
        var tokens = new List<uint>();
        using (var sampler = new Sampler().Greedy())
        {
            for (var logits = Context.Decode(prompt); tokens.Count < 6; logits = Context.Decode(new[] { tokens.Last() }))
            {
                tokens.Add(sampler.Sample(logits));
                sampler.Accept(tokens.Last());
            }
        }
        Test.Same("by hand", tokens, greedy);
        Test.Refused(Status.NotFound, "", () => Context.Logits(1));
        using (var other = Tales.CreateContext(new ContextOptions { Positions = 64, Threads = 1, Sequences = 2 }))
        {
            other.Decode(new[] { prompt[0], prompt[0], prompt[1] }, new uint[] { 0, 0, 1 }, new uint[] { 0, 1, 1 }, new[] { true, false, true });
            Test.Same("sequences", new[] { other.Past(0), other.Past(1) }, new uint[] { 1, 2 });
            Test.Equal("logits", other.Logits(2).Length, (int)Tales.Info.VocabularySize);
            Test.Refused(Status.NotFound, "", () => other.Logits(1));
            Test.Refused(Status.InvalidArgument, "position", () => other.Decode(new uint[] { 1 }, new uint[] { 5 }, null, null));
            Test.Refused(Status.InvalidArgument, "7", () => other.Decode(prompt, 7));
            var wrong = Test.Thrown<ArgumentException>(() => other.Decode(new uint[] { 1 }, new uint[] { 1, 2 }, null, null));
            Test.True("counts", wrong.Message.Contains("2 values are given for 1"));
        }
    }

    public static void Kept()
    {
        var sampler = new Sampler(11).Temperature(1.3f);
        Test.Equal("seed", sampler.Seed, 11ul);
        Test.Equal("largest seed", new Sampler(ulong.MaxValue - 1).Seed, ulong.MaxValue - 1);
        var copy = sampler.Copy();
        var first = Draw(sampler);
        var second = Draw(sampler);
        Test.True("goes on", !first.SequenceEqual(second));
        Test.Same("the copy", Draw(copy), first);
        Test.Same("the copy goes on", Draw(copy), second);
        sampler.Reset();
        Test.Same("anew", Draw(sampler), first);
        sampler.Dispose();
        sampler.Dispose();
        Test.Disposed("sampler", () => sampler.Accept(1));
        Test.Disposed("sampler", () => Draw(sampler));
    }

    public static void OwnStages()
    {
        var sea = Token(" sea");
        var calls = 0;
        var only = new Sampler().Candidates((tokens, logits) =>
        {
            calls++;
            for (var i = 0; i < tokens.Length; i++) logits[i] = tokens[i] == sea ? 1 : float.NegativeInfinity;
        });
        Test.Same("candidates", Draw(only), Enumerable.Repeat(sea, 12));
        Test.Equal("calls", calls, 12);
        // What it throws does not pass through C, and is what was thrown.
        var reason = new InvalidOperationException("not so");
        Func<Sampler> failing = () => new Sampler().Candidates((tokens, logits) => { throw reason; });
        Test.Equal("thrown", Test.Thrown<InvalidOperationException>(() => Draw(failing())), reason);
        Test.Equal("by hand", Test.Thrown<InvalidOperationException>(() => failing().Sample(new float[3])), reason);
        Context.Rewind(0);
        using (var all = Context.Complete("The sea", 1, new GenerateOptions { Sampler = failing() }))
        {
            Test.Equal("of completions", Test.Thrown<InvalidOperationException>(() => all.Finish()), reason);
        }
        Test.Same("works on", Draw(null), Draw(null));
        // A copy has it after the sampler was disposed of, and what it needs is not collected.
        Sampler copy;
        using (var sampler = new Sampler().Candidates((tokens, logits) => logits[2] = 1000)) copy = sampler.Copy();
        GC.Collect();
        Test.Equal("the copy", copy.Sample(new float[] { 100, 0, -100 }), 2u);
    }

    public static void Proposals()
    {
        Sampler sampler;
        using (var constraint = Constraint.Choices(Tales, new[] { " the sea" })) sampler = new Sampler().Constrained(constraint).Greedy();
        Test.Equal("unfinished", sampler.Progress, ConstraintProgress.Unfinished);
        Context.Rewind(0);
        Test.Equal("constrained", Context.Generate("He saw", new GenerateOptions { MaxTokens = 9, Sampler = sampler }).ReadToEnd().Text, " the sea");
        Test.Equal("complete", sampler.Progress, ConstraintProgress.Complete);
        Test.Refused(Status.NotFound, "", () => Tales.ProposedSampler());
        using (var proposing = Model.Load(Test.Tales, new ModelOptions { Metadata = { { "general.sampling.top_k", 1 } } }))
        using (var proposed = proposing.ProposedSampler(1))
        using (var plain = new Sampler(1))
        {
            var logits = new float[] { 1, 2, 1.9f, 1.8f };
            Test.Equal("proposed", Enumerable.Range(0, 50).Select(i => proposed.Sample(logits)).Distinct().Single(), 1u);
            Test.True("drawn from all", Enumerable.Range(0, 50).Select(i => plain.Sample(logits)).Distinct().Count() > 1);
        }
    }
}
