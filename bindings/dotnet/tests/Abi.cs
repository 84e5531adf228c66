using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Runtime.InteropServices;
using Ember;
using Ember.Interop;

/// <summary>Prints how the declarations of Ember.Interop lie in memory, for abi.py.</summary>
public static class Abi
{
    private static readonly Dictionary<Type, string> Kinds = new Dictionary<Type, string>
    {
        { typeof(void), "void" }, { typeof(byte), "uint8" }, { typeof(sbyte), "int8" }, { typeof(short), "int16" }, { typeof(ushort), "uint16" },
        { typeof(int), "int32" }, { typeof(uint), "uint32" }, { typeof(long), "int64" }, { typeof(ulong), "uint64" }, { typeof(float), "float32" },
        { typeof(double), "float64" }, { typeof(UIntPtr), "uint" + 8 * UIntPtr.Size }, { typeof(IntPtr), "pointer" }, { typeof(EmberHandle), "pointer struct" },
    };

    private static string Kind(Type type, ICustomAttributeProvider attributes)
    {
        if (type == typeof(bool))
        {
            var how = (MarshalAsAttribute)attributes.GetCustomAttributes(typeof(MarshalAsAttribute), false).SingleOrDefault();
            return how != null && how.Value == UnmanagedType.I1 ? "bool" : "a bool of four bytes";
        }
        if (type.IsByRef || type.IsArray) return "pointer " + Kind(type.GetElementType(), attributes);
        if (typeof(Delegate).IsAssignableFrom(type)) return "function";
        if (type.IsEnum) return Kind(Enum.GetUnderlyingType(type), attributes);
        if (Kinds.ContainsKey(type)) return Kinds[type];
        return type.IsValueType && !type.IsPrimitive ? "struct" : type.Name;
    }

    private static string Signature(MethodInfo method)
    {
        var kinds = method.GetParameters().Select(parameter => Kind(parameter.ParameterType, parameter));
        return string.Join(", ", new[] { Kind(method.ReturnType, method.ReturnParameter) }.Concat(kinds));
    }

    /// <summary>Calls the library, so that it has to be found.</summary>
    private static void Library(MethodInfo version)
    {
        if ((IntPtr)version.Invoke(null, null) == IntPtr.Zero) throw new Exception("the library has no version");
    }

    public static void Main()
    {
        var first = typeof(Native).GetNestedType("First", BindingFlags.NonPublic).GetMethods(BindingFlags.Public | BindingFlags.Static);
        var all = typeof(Native).GetMethods(BindingFlags.Public | BindingFlags.Static);
        foreach (var method in all.Concat(first).Where(one => one.Name.StartsWith("ember_") && one.Attributes.HasFlag(MethodAttributes.PinvokeImpl)))
        {
            Console.WriteLine("function " + method.Name + " " + Signature(method));
        }
        Library(typeof(Native).GetMethod("ember_version_string"));
        foreach (var constant in typeof(Native).GetFields(BindingFlags.Public | BindingFlags.Static))
        {
            Console.WriteLine("constant " + constant.Name + " " + constant.GetValue(null));
        }
        foreach (var type in typeof(Native).Assembly.GetTypes().Where(type => type.Namespace == "Ember.Interop" && !type.IsNested && type != typeof(Native)))
        {
            if (typeof(Delegate).IsAssignableFrom(type))
            {
                var how = (UnmanagedFunctionPointerAttribute)type.GetCustomAttributes(typeof(UnmanagedFunctionPointerAttribute), false).Single();
                Console.WriteLine("callback " + type.Name + " " + (how.CallingConvention == CallingConvention.Cdecl ? "" : "not C's: ") + Signature(type.GetMethod("Invoke")));
                continue;
            }
            Console.WriteLine("struct " + type.Name + " " + Marshal.SizeOf(type));
            foreach (var field in type.GetFields())
            {
                Console.WriteLine("field " + type.Name + "." + field.Name + " " + Marshal.OffsetOf(type, field.Name) + " " + Kind(field.FieldType, field));
            }
        }
        foreach (var type in typeof(Native).Assembly.GetTypes().Where(type => type.IsEnum && type.Namespace == "Ember"))
        {
            foreach (var name in Enum.GetNames(type)) Console.WriteLine("enumerator " + type.Name + "." + name + " " + (int)Enum.Parse(type, name));
        }
    }
}
