using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using Ember;

/// <summary>The results that all bindings share, and vectors and scores of the libraries that the models come from.</summary>
public static class GoldenTest
{
    public static void Generations()
    {
        var finishes = new Dictionary<string, FinishReason> { { "max_tokens", FinishReason.MaxTokens }, { "stop_string", FinishReason.StopString } };
        var lines = Test.Lines("generate");
        Test.True("several", lines.Length >= 8);
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext())
        {
            foreach (var fields in lines)
            {
                var prompt = fields[0];
                var options = new GenerateOptions { MaxTokens = uint.Parse(fields[2]) };
                if (fields[3] != "") options.Stop.Add(fields[3]);
                if (fields[4] != "") options.Sampler = Stages(ulong.Parse(fields[4]), fields[5]);
                Test.Same("prompt", model.Tokenize(prompt), Test.Tokens(fields[1]));
                context.Rewind(0);
                var events = context.Generate(prompt, options).ToList();
                Test.Same(prompt, events.Where(one => !one.IsEnd).Select(one => one.Token.Value), Test.Tokens(fields[6]));
                Test.Equal("text", string.Concat(events.Select(one => one.Text)), fields[7]);
                Test.Equal("finish", events.Last().Finish, finishes[fields[8]]);
                Test.Equal("prompt's tokens", events.Last().Usage.PromptTokens, (uint)Test.Tokens(fields[1]).Length);
                if (options.Sampler != null) continue;
                context.Rewind(0);
                Test.Equal("of tokens", context.Generate(Test.Tokens(fields[1]), options).ReadToEnd().Text, fields[7]);
            }
        }
    }

    private static Sampler Stages(ulong seed, string stages)
    {
        var sampler = new Sampler(seed);
        foreach (var stage in stages.Split(' '))
        {
            var value = (float)Test.Number(stage.Split('=')[1]);
            switch (stage.Split('=')[0])
            {
                case "temperature":
                    sampler.Temperature(value);
                    break;
                case "top_k":
                    sampler.TopK((uint)value);
                    break;
                case "top_p":
                    sampler.TopP(value);
                    break;
                default:
                    throw new Exception("there is no stage " + stage);
            }
        }
        return sampler;
    }

    public static void Vectors()
    {
        var lines = Test.Lines("vectors");
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext())
        {
            var rows = context.Embed(lines.Select(fields => fields[0]));
            for (var i = 0; i < rows.Length; i++) Test.Near("vector", rows[i], Test.Numbers(lines[i][1]), 0.01);
            Test.Near("of one text", context.Embed(lines[0][0]), rows[0], 1e-5);
            var tokens = context.EmbedTokens(lines.Select(fields => model.Tokenize(fields[0])));
            for (var i = 0; i < rows.Length; i++) Test.Same("of tokens", tokens[i], rows[i]);
            Test.Refused(Status.InvalidArgument, "99999999", () => context.EmbedTokens(new[] { new uint[] { 99999999 } }));
        }
    }

    public static void Score()
    {
        var fields = Test.Lines("score").Single();
        using (var model = Model.Load(Test.Tales))
        using (var context = model.CreateContext(new ContextOptions { Positions = 128, Sequences = 2 }))
        {
            var score = context.Score(fields[0], fields[1]);
            Test.Same("tokens", score.Tokens.Select(one => one.Token), Test.Tokens(fields[2]));
            Test.Near("log-probabilities", score.Tokens.Select(one => one.Logprob).ToArray(), Test.Numbers(fields[3]), 0.1);
            Test.Same("ranks", score.Tokens.Select(one => one.Rank), Test.Tokens(fields[4]));
            Test.True("sum", Math.Abs(score.Logprob - Test.Number(fields[5])) < 0.2);
            Test.Equal("greedy", score.IsGreedy, bool.Parse(fields[6]));
            var again = context.Score(model.Tokenize(fields[0]), Test.Tokens(fields[2]));
            Test.True("of tokens", Math.Abs(again.Logprob - score.Logprob) < 1e-3);
            Test.True("reused", again.ReusedTokens > 0);
            Test.True("in another sequence", Math.Abs(context.Score(fields[0], fields[1], 1).Logprob - score.Logprob) < 1e-3);
            Test.Refused(Status.InvalidArgument, "", () => context.Score(fields[0], ""));
        }
    }

    public static void Shift()
    {
        var fields = Test.Lines("shift").Single();
        using (var model = Model.Load(Test.Rotary))
        using (var context = model.CreateContext(new ContextOptions { Positions = uint.Parse(fields[1]) }))
        {
            var options = new GenerateOptions { MaxTokens = uint.Parse(fields[2]), Shift = new Shift(uint.Parse(fields[3]), uint.Parse(fields[4])), IgnoreEog = true };
            var events = context.Generate(Test.Tokens(fields[0]), options).ToList();
            Test.Same("tokens", events.Where(one => !one.IsEnd).Select(one => one.Token.Value), Test.Tokens(fields[5]));
            Test.Equal("shifted", events.Last().Usage.ShiftedTokens, ulong.Parse(fields[7]));
        }
    }

    /// <summary>The vectors of a folder with a Dense module are narrower than the model's layers.</summary>
    public static void Dense()
    {
        var lines = Test.Lines("dense"); // text, normalize, dimensions, numbers
        using (var model = Model.Load(Path.Combine(Test.Root, "tests/fixtures/dense-folder")))
        using (var context = model.CreateContext())
        {
            var info = model.Info;
            Test.Same("lengths", new[] { info.EmbeddingLength, info.VectorLength, info.Prompts }, new uint[] { 36, 7, 3 });
            foreach (var fields in lines)
            {
                var options = new EmbedOptions { Normalize = bool.Parse(fields[1]), Dimensions = uint.Parse(fields[2]) };
                Test.Near(fields[0], context.Embed(fields[0], options), Test.Numbers(fields[3]), 2e-3);
            }
            var prompted = context.Embed(new[] { "w5 w6 w7", "w5 w6 w9 w4" });
            var named = context.Embed(new[] { "w7", "w9 w4" }, new EmbedOptions { Prompt = "query" });
            for (var i = 0; i < 2; i++) Test.Same("with a prompt", named[i], prompted[i]);
            var rows = context.Embed(new[] { "w7 w8" }, new EmbedOptions { Pooling = Pooling.None });
            Test.Same("rows", new[] { rows.Length, rows[0].Length }, new[] { model.Tokenize("w7 w8").Length, 36 });
            var cut = context.Embed(new[] { "w7 w8" }, new EmbedOptions { Pooling = Pooling.None, Dimensions = 5 });
            Test.Same("cut rows", cut[1], rows[1].Take(5));
            Test.Equal("of no texts", context.Embed(new string[0]).Length, 0);
            Test.Refused(Status.InvalidArgument, "1 to 7", () => context.Embed("w7", new EmbedOptions { Dimensions = 8 }));
            Test.Refused(Status.InvalidArgument, "\"passage\"", () => context.Embed("w7", new EmbedOptions { Prompt = "passage" }));
        }
    }

    /// <summary>Lines: model, labels, the query, a text, its scores, its score after the query.</summary>
    public static void Rank()
    {
        var lines = Test.Lines("rank");
        Test.True("several", lines.Length >= 8);
        foreach (var of in lines.GroupBy(fields => fields[0]))
        using (var model = Model.Load(Path.Combine(Test.Root, "tests/fixtures/rank", of.Key + ".gguf")))
        using (var context = model.CreateContext())
        {
            foreach (var fields in of)
            {
                Test.Equal("labels", string.Join("|", model.Labels), fields[1]);
                Test.Near(fields[3], context.Classify(new[] { fields[3], "a" })[0], Test.Numbers(fields[4]), 2e-3);
                var document = new[] { fields[3] };
                if (fields[5] == "") Test.Refused(Status.Unsupported, "", () => context.Rerank("a", document));
                else Test.Near(fields[3], context.Rerank(fields[2], document), Test.Numbers(fields[5]), 2e-3);
                var logits = context.Classify(document, new ClassifyOptions { Activation = ClassifyActivation.None })[0];
                if (logits.Length == 1) Test.Near(fields[3], new[] { (float)(1 / (1 + Math.Exp(-logits[0]))) }, Test.Numbers(fields[4]), 2e-3);
            }
        }
    }
}
