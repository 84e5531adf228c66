module ember.example/ember

go 1.24
