using System;
using Ember;

/// <summary>Calls one function of the package, before any other: First.exe NAME MODEL. The library has to be found for each.</summary>
public static class First
{
    public static void Main(string[] arguments)
    {
        var model = arguments[1];
        switch (arguments[0])
        {
            case "load":
                Model.Load(model).Dispose();
                break;
            case "bytes":
                Refused(() => Model.Load(new byte[8]));
                break;
            case "descriptor":
                Refused(() => Model.Load(9999, 0, 0));
                break;
            case "borrowed":
                Refused(() => Model.LoadBorrowed(IntPtr.Zero, 0, () => { }));
                break;
            case "inspect":
                Model.Inspect(model);
                break;
            case "estimate":
                Model.EstimateMemory(model, null, new ContextOptions { Positions = 64 });
                break;
            case "tokenizer":
                Tokenizer.Load(model).Dispose();
                break;
            case "sampler":
                new Sampler(1).Greedy().Dispose();
                break;
            case "version":
                Console.WriteLine(Library.Version);
                break;
            case "feature":
                Library.HasFeature("chat");
                break;
            case "log":
                Log.Off();
                break;
            default:
                throw new ArgumentException(arguments[0]);
        }
    }

    private static void Refused(Action call)
    {
        try
        {
            call();
        }
        catch (EmberException)
        {
            return;
        }
        throw new Exception("not refused");
    }
}
