# The headline's curves:  cd docs/results && gnuplot table1-fmnist-noniid2.gp
# Means of the last ten rounds, seed 1: single rounds swing by six points.
set datafile separator ","
set terminal svg size 900,490 font "sans-serif,13" background "white"
set output "table1-fmnist-noniid2.svg"
methods = "fedavg fedmrn fedmrns eden drive terngrad signsgd topk fedbat fedsparsify fedpm"
titles = "FedAvg FedMRN FedMRNS EDEN DRIVE TernGrad SignSGD Top-k FedBAT FedSparsify FedPM"
array colours[11] = ["#7f7f7f", "#d62728", "#1f77b4", "#2ca02c", "#111111", \
  "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#bcbd22", "#17becf"]
file(i) = "table1-fmnist-noniid2/" . word(methods, i) . "-seed1.csv"
width(i) = i <= 3 ? 2.5 : 1.5

# The mean of the last ten of the values it is called with, round by round.
array last[10]
mean(round, value) = (last[int(round) % 10 + 1] = value, \
  round < 10 ? NaN : (sum [k = 1:10] last[k]) / 10)

set multiplot layout 1,2
set grid lc "#dddddd"
set border 3
set tics nomirror
set tmargin at screen 0.97
set bmargin at screen 0.32
set key at screen 0.52,0.02 bottom center vertical maxrows 3 width 1 samplen 2
set yrange [40:90]
set ylabel "test accuracy, %"
set xlabel "round"
plot for [i = 1:11] file(i) using 1:(mean($1, 100*$2)) skip 1 with lines lw width(i) lc rgb colours[i] title word(titles, i)
unset key  # one for both
set xlabel "uploaded by all clients, MB (log scale)"
set logscale x
set xrange [3:3000]
total = 0
plot for [i = 1:11] file(i) using (total = ($1 == 1 ? 0 : total) + $4/1e6, total):(mean($1, 100*$2)) skip 1 with lines lw width(i) lc rgb colours[i] title word(titles, i)
unset multiplot
