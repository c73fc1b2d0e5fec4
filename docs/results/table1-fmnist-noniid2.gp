# The headline's curves:  cd docs/results && gnuplot cyclic-curves.gp
# Thin lines are single rounds, thick ones means of the last ten.
set datafile separator ","
set terminal svg size 900,400 font "sans-serif,13" background "white"
set output "fmnist-noniid2-cyclic.svg"
methods = "fedavg eden fedmrn fedmrns"
titles = "FedAvg EDEN FedMRN FedMRNS"
array colours[4] = ["#7f7f7f", "#2ca02c", "#d62728", "#1f77b4"]
array pale[4] = ["#d9d9d9", "#cfe8cf", "#f6c9c9", "#cfe0ef"]
file(i) = "fmnist-noniid2-cyclic-" . word(methods, i) . ".csv"

# The mean of the last ten of the values it is called with, round by round.
array last[10]
mean(round, value) = (last[int(round) % 10 + 1] = value, \
  round < 10 ? NaN : (sum [k = 1:10] last[k]) / 10)

set multiplot layout 1,2
set grid lc "#dddddd"
set border 3
set tics nomirror
set key bottom right
set yrange [30:95]
set ylabel "test accuracy, %"
set xlabel "round"
plot for [i = 1:4] file(i) using 1:(100*$2) skip 1 with lines lw 1 lc rgb pale[i] notitle, \
     for [i = 1:4] file(i) using 1:(mean($1, 100*$2)) skip 1 with lines lw 2.5 lc rgb colours[i] title word(titles, i)
set xlabel "uploaded by all clients, MB (log scale)"
set logscale x
set xrange [3:3000]
total = 0
plot for [i = 1:4] file(i) using (total = ($1 == 1 ? 0 : total) + $4/1e6, total):(mean($1, 100*$2)) skip 1 with lines lw 2.5 lc rgb colours[i] title word(titles, i)
unset multiplot
